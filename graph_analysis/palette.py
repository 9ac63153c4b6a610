"""The colours of pictures: Okabe and Ito's palette, which colour-blind readers can tell apart."""

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY_BLUE, VERMILION, YELLOW = "#56B4E9", "#D55E00", "#F0E442"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY_BLUE, VERMILION, YELLOW)
GREY = "#999999"
