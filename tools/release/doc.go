// Package release checks what make release packs: the Helm chart and the manifests that are rendered from it, by helm itself and the types of
// Kubernetes, and the compose file. It is a module of its own, because those are large.
package release
