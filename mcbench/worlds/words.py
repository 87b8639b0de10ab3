"""Words of responses. Several words with one meaning give the base model honest entropy."""

EOS = "<eos>"  # ends a response
OPENERS = ("try", "maybe", "test", "say")
FAILS = (" no\n", " wrong\n", " off\n")
NONES = (" none\n", " cannot\n", " skip\n")
OKS = (" ok", " yes", " fits")
GIVE_UPS = ("guess\n", "give up\n", "enough\n")
FENCE_OPEN, FENCE_CLOSE = "```python\n", "```"
