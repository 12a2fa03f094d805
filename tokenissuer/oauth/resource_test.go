package oauth

import "testing"

// TestT149FoldResource: scheme and host are folded and a slash at the end is ignored, and nothing else is.
func TestT149FoldResource(t *testing.T) {
	for indicator, want := range map[string]string{
		"https://api.example/orders": "https://api.example/orders", "HTTPS://API.example/orders/": "https://api.example/orders",
		"https://api.example": "https://api.example", "https://api.example/": "https://api.example",
		"https://api.example/Orders": "https://api.example/Orders", "https://api.example//": "https://api.example/",
		"https://api.example:443/": "https://api.example:443", "https://api.example/%6F": "https://api.example/%6F",
		"https://Me@API.example/": "https://Me@api.example", "https://api.example/?Q=/": "https://api.example?Q=/",
		"https://api.example/x/?q": "https://api.example/x?q", "urn:Things:x": "urn:Things:x", "URN:Things": "urn:Things",
		"https://[::1]:8443/": "https://[::1]:8443", "https://API.example?q": "https://api.example?q", "api:": "", "https://": "", "https:": "", "http:///": "",
		"": "", "orders": "", "/orders": "", "//api.example/orders": "", "api.example/orders": "", "https://api.example/orders#": "",
		"https://api.example/orders#f": "", "https://api.example/\x00": "", "https://api.example/\n": "", ":": "", "https://api.example/%zz": "",
	} {
		folded, ok := FoldResource(indicator)
		if folded != want || ok != (want != "") {
			t.Errorf("%q is folded to %q (%t), want %q", indicator, folded, ok, want)
		}
	}
}

func TestNothingIsKnownBeforeItIsPublished(t *testing.T) {
	if new(Resources).Has("https://api.example") {
		t.Error("a resource is known before any was published")
	}
}
