"""Stream functions: models of real providers over HTTP, and a scripted one."""
