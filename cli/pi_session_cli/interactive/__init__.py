"""The conversation in a terminal: prompt, slash commands, picker. Only `resume` loads it, with prompt_toolkit."""
