package caddymodule

import (
	"slices"
)

// overridingHeaders are those from which some upstream takes another method or path than the one that was checked. Hardly a
// proxy takes them from its own clients, so that they say nothing even when they come from a trusted one. In canonical form.
var overridingHeaders = append(slices.Clip(methodHeaders),
	"X-Original-Url", "X-Original-Uri", "X-Original-Path", "X-Rewrite-Url", "X-Rewrite-Uri", "X-Override-Url",
	"X-Forwarded-Uri", "X-Forwarded-Url", "X-Forwarded-Path", "X-Script-Name", "Script-Name", "Path-Info",
)

// methodHeaders are those of them that choose a method.
var methodHeaders = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Original-Method", "X-Forwarded-Method"}

var overridingNames = newHeaderNames(overridingHeaders...)
