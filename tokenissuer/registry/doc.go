// Package registry is the operator's side of the authorization server: which clients, users and organisations exist, what an
// operator changes of them and ends, and what a new configuration ends because it does not declare it any more. Its door is
// Registry; admin asks it, and nothing that answers a client or a browser does.
package registry
