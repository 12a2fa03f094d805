package endpoint

import "testing"

// TestA60A63OriginsOfForms: a form whose Origin or Sec-Fetch-Site names another origin or site, several, or nothing that is known → 403; one
// of ours, of a page under no-referrer, or of a browser that sends neither → taken, if its token is genuine.
func TestA60A63OriginsOfForms(t *testing.T) {
	const ours = "https://id.example"
	for name, headers := range map[string][]string{
		"another origin": {"Origin", "https://evil.tld"}, "no origin": {"Origin", "null"}, "no origin, from another site": {"Origin", "null", "Sec-Fetch-Site", "cross-site"},
		"another site": {"Sec-Fetch-Site", "cross-site"}, "a sibling": {"Sec-Fetch-Site", "same-site"}, "the user": {"Sec-Fetch-Site", "none"},
		"our origin, from another site": {"Origin", ours, "Sec-Fetch-Site", "cross-site"}, "another origin, from ours": {"Origin", "https://evil.tld", "Sec-Fetch-Site", "same-origin"},
		"no origin, from a sibling": {"Origin", "null", "Sec-Fetch-Site", "same-site"}, "another scheme": {"Origin", "http://id.example"}, "a longer host": {"Origin", ours + ".evil.tld"},
		"a path": {"Origin", ours + "/"}, "another port": {"Origin", ours + ":444"}, "a user": {"Origin", "https://evil@id.example"}, "empty": {"Origin", ""},
		"two origins": {"Origin", ours, "Origin", "https://evil.tld"}, "two sites": {"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"},
		"two sites in one": {"Sec-Fetch-Site", "same-origin, cross-site"}, "case": {"Sec-Fetch-Site", "Same-Origin"}, "garbage": {"Sec-Fetch-Site", "x"},
	} {
		if isSameOrigin(headers...) {
			t.Errorf("%s is taken for ours", name)
		}
	}
	for _, headers := range [][]string{
		nil, {"Origin", ours}, {"Origin", ours, "Sec-Fetch-Site", "same-origin"}, {"Origin", "null", "Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "same-origin"},
	} {
		if !isSameOrigin(headers...) {
			t.Errorf("%q is not ours", headers)
		}
	}
}
