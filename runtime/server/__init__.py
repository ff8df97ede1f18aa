"""The server: many requests on one engine. `request` is what goes in and comes out, `scheduler` runs it."""
