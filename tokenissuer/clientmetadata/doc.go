// Package clientmetadata reads client id metadata documents: a client whose id is a URL describes itself at that URL (OAuth Client ID
// Metadata Document). Any site that links to the authorization endpoint chooses the URL, so fetches are bounded: in the addresses that they
// reach, in time and size, and in number per host.
package clientmetadata
