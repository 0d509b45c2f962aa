"""What English words mean for a reading of what people say of themselves. Lists of words, no sentences."""

from typing import Final

_BRIEF: Final = ("concise", "terse", "succinct", "to the point", "shorter", "compact", "crisp")
_DETAILED: Final = (
    *("thorough", "in-depth", "in depth", "in detail", "comprehensive", "elaborate", "lengthy", "longer"),
    *("extensive", "exhaustive", "verbose"),
)
SYNONYMS: Final = {
    "brief": (*_BRIEF, "short"),
    "short": (*_BRIEF, "brief"),
    "concise": (*_BRIEF, "brief", "short"),
    "detailed": (*_DETAILED, "long"),
    "long": (*_DETAILED, "detailed"),
    "metric": (
        *("kilometres", "kilometers", "kilometre", "kilometer", "km", "kilograms", "kilos", "kg", "cm"),
        *("centimetres", "centimeters", "meters", "metres", "litres", "liters", "celsius"),
    ),
    "imperial": ("miles", "pounds", "inches", "feet", "fahrenheit", "yards", "gallons", "ounces", "lbs"),
    "friendly": ("warm",),
    "window": ("by the window", "at the window", "next to the window"),
    "night": ("overnight", "red-eye", "red-eyes"),
    "omnivore": ("everything", "meat eater"),
    "vegan": ("plant-based",),
    "casual": ("informal", "relaxed"),
    "informal": ("casual", "relaxed"),
    "any": ("no preference",),
    "celsius": ("centigrade",),
    "vegetarian": ("veggie",),
    "sms": ("text message", "text messages", "texts", "text", "texting"),
    "email": ("e-mail", "mail", "emails", "e-mails"),
    "push": ("push notification", "push notifications"),
    "phone": ("phone call", "phone calls", "calls", "telephone"),
    "none": ("nothing",),
    "24h": ("24-hour", "24 hour", "twenty-four hour", "military time"),
    "12h": ("12-hour", "12 hour", "twelve hour", "am/pm"),
}
"""Other words for values that registries often declare."""

COMMON: Final = frozenset([
    "any", "short", "long", "brief", "light", "dark", "system", "morning", "afternoon", "evening", "night", "window",
    "email", "mail", "phone", "text", "sms", "high", "low", "medium", "small", "large", "none", "all", "on", "off",
    "yes", "no", "formal", "friendly", "casual", "detailed", "daily", "weekly", "never", "always", "other", "public",
    "private", "fast", "slow", "early", "late", "direct", "quiet", "train", "plane", "car", "bus", "bike", "walk",
    "hot", "cold", "mild", "warm", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
    "left", "right", "normal", "standard", "default", "auto", "manual", "miles", "feet", "pounds", "calls", "texts",
    "meters", "metres", "km", "nothing", "longer", "shorter", "compact", "crisp", "kilos", "kg", "cm", "inches",
    "yards", "gallons", "ounces", "lbs", "litres", "liters", "everything", "overnight", "texting", "push",
])  # fmt: skip
"""Values whose word alone does not say what it is about."""

TONES: Final = frozenset([
    "formal", "informal", "friendly", "casual", "warm", "professional", "polite", "brief", "concise", "short", "direct",
    "cheerful", "relaxed", "enthusiastic", "neutral", "serious", "playful", "humorous", "funny", "witty", "dry",
    "businesslike", "business-like", "diplomatic", "respectful", "kind", "courteous", "personal", "plain", "simple",
    "upbeat", "positive", "confident", "assertive", "laid-back", "conversational", "chatty", "matter-of-fact", "crisp",
    "terse", "sincere", "gentle", "strict", "academic", "lighthearted", "light-hearted", "clear", "empathetic",
    "caring", "encouraging", "optimistic", "energetic", "calm", "blunt", "honest", "sarcastic", "poetic", "elegant",
    "firm", "easygoing", "easy-going", "approachable", "sober", "factual", "snappy", "succinct", "long", "detailed",
])  # fmt: skip
"""Adjectives of a tone."""

RELATED: Final = (
    ("answer", "reply", "response", "respond", "explanation", "explain"),
    ("mail", "email", "e-mail"),
    ("flight", "fly", "flying", "departure", "depart"),
    ("theme", "mode", "screen", "interface"),
    (
        "notify",
        "notified",
        "notification",
        "reminder",
        "remind",
        "alert",
        "ping",
        "reach",
        "contact",
        "hold",
        "pinged",
        "inbox",
    ),
    ("hours", "workday", "shift", "office"),
    ("unit", "measurement", "measure", "distance", "weight", "temperature"),
    ("diet", "food", "eat", "meal", "cook", "recipe"),
)
"""Words that are evidence of one another's keys."""

EMPTY: Final = frozenset([
    "a", "an", "the", "of", "to", "for", "in", "on", "at", "as", "is", "are", "was", "be", "by", "or", "and", "with",
    "such", "which", "what", "when", "where", "how", "who", "whom", "whose", "that", "this", "it", "its", "if",
    "person", "persons", "people", "user", "users", "they", "them", "their", "theirs", "he", "she", "has", "have",
    "had", "do", "does", "can", "may", "like", "likes", "liked", "want", "wants", "prefer", "prefers", "preferred",
    "preference", "preferences", "use", "used", "uses", "most", "much", "many", "one", "own", "said", "without",
    "back", "falls", "called", "call", "name", "names", "values", "value", "key", "local", "times", "good", "enough",
    "guess", "seems", "care", "about", "iso", "bcp", "tag", "code", "written", "works", "work", "person's", "user's",
    "i", "me", "my", "you", "your", "not", "from", "so", "than", "then", "any", "other", "kind", "type", "main",
    "usual", "usually", "current", "currently",
])  # fmt: skip
"""Words of a description that are no evidence of its key."""

LANGUAGES: Final = {
    "english": "en", "british english": "en-GB", "american english": "en-US", "german": "de", "french": "fr",
    "spanish": "es", "italian": "it", "portuguese": "pt", "brazilian portuguese": "pt-BR", "dutch": "nl",
    "polish": "pl", "czech": "cs", "slovak": "sk", "hungarian": "hu", "romanian": "ro", "bulgarian": "bg",
    "greek": "el", "turkish": "tr", "russian": "ru", "ukrainian": "uk", "swedish": "sv", "norwegian": "no",
    "danish": "da", "finnish": "fi", "estonian": "et", "latvian": "lv", "lithuanian": "lt", "irish": "ga",
    "welsh": "cy", "catalan": "ca", "basque": "eu", "croatian": "hr", "serbian": "sr", "slovenian": "sl",
    "hebrew": "he", "arabic": "ar", "persian": "fa", "farsi": "fa", "hindi": "hi", "urdu": "ur", "bengali": "bn",
    "tamil": "ta", "telugu": "te", "chinese": "zh", "mandarin": "zh", "japanese": "ja", "korean": "ko",
    "vietnamese": "vi", "thai": "th", "indonesian": "id", "malay": "ms", "swahili": "sw", "icelandic": "is",
}  # fmt: skip
"""Names of languages, as BCP 47 tags."""

CURRENCIES: Final = {
    "euro": "EUR", "euros": "EUR", "dollar": "USD", "dollars": "USD", "us dollars": "USD", "pound": "GBP",
    "pounds": "GBP", "pounds sterling": "GBP", "sterling": "GBP", "yen": "JPY", "swiss francs": "CHF",
    "francs": "CHF", "yuan": "CNY", "rupees": "INR", "zloty": "PLN", "kronor": "SEK", "canadian dollars": "CAD",
    "australian dollars": "AUD",
}  # fmt: skip
"""Names of currencies, by ISO 4217."""

RELATIONS: Final = {
    "name": ("name", "nickname"),
    "home": ("home", "city", "residence", "live", "lives", "town", "location", "address", "country"),
    "employer": ("employer", "company", "workplace", "employed"),
    "role": ("role", "job", "occupation", "profession", "title", "position"),
    "diet": ("diet", "food", "dietary", "eat", "eats", "meal", "meals"),
    "allergy": ("allergy", "allergies", "allergic", "allergen", "allergens"),
    "interest": ("interest", "interests", "hobby", "hobbies", "topic"),
    "signature": ("signature", "sign", "signoff", "closing"),
    "timezone": ("timezone", "zone"),
    "editor": ("editor", "ide"),
    "tone": ("tone", "style", "manner", "voice", "formality"),
}
"""What a key is about, by the words of its name and description."""
