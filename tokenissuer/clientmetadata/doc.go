// Package clientmetadata reads client id metadata documents: a client whose id is a URL describes itself at that URL (OAuth Client ID
// Metadata Document). Whoever sends somebody to the authorization endpoint chooses the URL, so a fetch is bounded in every way: which
// addresses it reaches, how long and how large it is, and how often any host is asked.
package clientmetadata
