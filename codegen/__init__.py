"""How facts about a machine become C."""
