"""Trainers of SDFT, SFT, GRPO and verifiers."""
