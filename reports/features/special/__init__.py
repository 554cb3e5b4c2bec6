"""Special vdevs: what they answer, and what they hold."""
