"""What the reasons and rules of a plan say of the cluster, checked by plain sums over the round."""
