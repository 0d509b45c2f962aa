"""Where the projection is kept: profile store and history store, each a port with a contract suite."""
