"""Arms and seeds: what the experiments compare, trained where missing, and read as one study."""
