"""The trainers: SDFT, SFT and GRPO."""
