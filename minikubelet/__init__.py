"""minikubelet: a kubelet for one host, without a cluster."""
