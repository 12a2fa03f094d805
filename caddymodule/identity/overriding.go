package identity

import (
	"slices"
)

// Overriding are those from which some upstream takes another method or path than the one that was checked. Hardly a
// proxy takes them from its own clients, so that they say nothing even when they come from a trusted one. In canonical form.
var Overriding = append(slices.Clip(OverridingMethod),
	"X-Original-Url", "X-Original-Uri", "X-Original-Path", "X-Rewrite-Url", "X-Rewrite-Uri", "X-Override-Url",
	"X-Forwarded-Uri", "X-Forwarded-Url", "X-Forwarded-Path", "X-Script-Name", "Script-Name", "Path-Info",
)

// OverridingMethod are those of them that choose a method.
var OverridingMethod = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Method", "X-Forwarded-Method"}

var overridingNames = NewNames(Overriding...)
