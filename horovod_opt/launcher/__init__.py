"""What `horovodrun`, and jobs of Ray and Spark, do beyond upstream."""
