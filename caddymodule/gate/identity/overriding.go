package identity

import (
	"slices"
)

// Overriding are headers, in canonical form, from which some upstreams take another method or path than the one that was
// checked. Hardly any proxy removes them from its clients' requests, so they are not trustworthy even from a trusted
// proxy.
var Overriding = append(slices.Clip(OverridingMethod),
	"X-Original-Url", "X-Original-Uri", "X-Original-Path", "X-Rewrite-Url", "X-Rewrite-Uri", "X-Override-Url",
	"X-Forwarded-Uri", "X-Forwarded-Url", "X-Forwarded-Path", "X-Script-Name", "Script-Name", "Path-Info",
)

// OverridingMethod are the Overriding headers for the method.
var OverridingMethod = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Method", "X-Forwarded-Method"}

var overridingNames = NewNames(Overriding...)
