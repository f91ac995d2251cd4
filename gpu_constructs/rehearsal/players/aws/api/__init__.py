"""How AWS is asked and answers, by the models of the SDK: requests, answers, refusals, and who plays what."""
