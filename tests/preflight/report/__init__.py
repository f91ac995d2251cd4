"""What was judged, in every form it is shown in."""
