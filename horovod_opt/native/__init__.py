"""What Python and the native libraries exchange."""
