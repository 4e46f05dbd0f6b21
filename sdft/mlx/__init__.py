"""SDFT on MLX, with the rows, objective and run of the torch version but without torch. Importing it loads no MLX."""
