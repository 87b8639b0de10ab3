"""A pretrained model for two CPU cores: SmolLM2-135M-Instruct from a GGUF file (:mod:`.models`),
and very easy functions in plain English for it to write (:mod:`.easy`).

It is real text with a real tokenizer and a chat template, and still small: 4-bit weights, easy
functions, no evidence about models a hundred times as large.
"""
