"""How the tools measure on the machine at hand, and how they show what they found."""
