"""`hsp slog`: one bare device after another as log devices."""
