// Package registry is the operator's side of the authorization server. Clients changes which clients exist, and People which users and
// organisations; neither changes what the configuration declares. Registry joins them for what concerns both: Reconcile ends what a new
// configuration no longer declares, and operators make tokens for clients and users. Package admin calls it; nothing that answers a client or
// a browser does.
package registry
