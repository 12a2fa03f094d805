package caddymodule

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
)

// How the document is read: rows M11 to M15 and M20.

// bodyCases are the bodies that are refused, for the user u-grace.
var bodyCases = map[string]map[string]struct {
	body string
	want mintRefusal
}{
	"M12": {
		"type user":            {`{"data":{"id":"u-grace","type":"user"}}`, bodyRefusal(409, "type_conflict", "/data/type")},
		"type Users":           {`{"data":{"id":"u-grace","type":"Users"}}`, bodyRefusal(409, "type_conflict", "/data/type")},
		"type with a space":    {`{"data":{"id":"u-grace","type":"users "}}`, bodyRefusal(409, "type_conflict", "/data/type")},
		"type with a long s":   {`{"data":{"id":"u-grace","type":"uſers"}}`, bodyRefusal(409, "type_conflict", "/data/type")},
		"type missing":         {`{"data":{"id":"u-grace"}}`, bodyRefusal(400, "missing_member", "/data")},
		"type null":            {`{"data":{"id":"u-grace","type":null}}`, bodyRefusal(400, "invalid_member", "/data/type")},
		"type empty":           {`{"data":{"id":"u-grace","type":""}}`, bodyRefusal(400, "invalid_member", "/data/type")},
		"type number":          {`{"data":{"id":"u-grace","type":1}}`, bodyRefusal(400, "invalid_member", "/data/type")},
		"type array":           {`{"data":{"id":"u-grace","type":["users"]}}`, bodyRefusal(400, "invalid_member", "/data/type")},
		"type wrong, id wrong": {`{"data":{"id":"u-ben","type":"user"}}`, bodyRefusal(409, "type_conflict", "/data/type")},
	},
	"M13": {
		"no member":    {`{}`, bodyRefusal(400, "missing_member", "")},
		"data missing": {`{"meta":{"data":{"id":"u-grace","type":"users"}}}`, bodyRefusal(400, "missing_member", "")},
		"data null":    {`{"data":null}`, bodyRefusal(400, "invalid_member", "/data")},
		"data array":   {`{"data":[{"id":"u-grace","type":"users"}]}`, bodyRefusal(400, "invalid_member", "/data")},
		"data string":  {`{"data":"u-grace"}`, bodyRefusal(400, "invalid_member", "/data")},
		"data number":  {`{"data":1}`, bodyRefusal(400, "invalid_member", "/data")},
		"data empty":   {`{"data":{}}`, bodyRefusal(400, "missing_member", "/data")},
		"id missing":   {`{"data":{"type":"users"}}`, bodyRefusal(400, "missing_member", "/data")},
		"id null":      {`{"data":{"id":null,"type":"users"}}`, bodyRefusal(400, "invalid_member", "/data/id")},
		"id empty":     {`{"data":{"id":"","type":"users"}}`, bodyRefusal(400, "invalid_member", "/data/id")},
		"id number":    {`{"data":{"id":1,"type":"users"}}`, bodyRefusal(400, "invalid_member", "/data/id")},
		"id true":      {`{"data":{"id":true,"type":"users"}}`, bodyRefusal(400, "invalid_member", "/data/id")},
		"id array":     {`{"data":{"id":["u-grace"],"type":"users"}}`, bodyRefusal(400, "invalid_member", "/data/id")},
		"id object":    {`{"data":{"id":{"id":"u-grace"},"type":"users"}}`, bodyRefusal(400, "invalid_member", "/data/id")},
	},
	"M14": {
		"id twice":                  {`{"data":{"id":"u-grace","id":"u-ben","type":"users"}}`, malformedDocument},
		"id twice, the same":        {`{"data":{"id":"u-grace","id":"u-grace","type":"users"}}`, malformedDocument},
		"id twice, escaped":         {`{"data":{"id":"u-grace","\u0069d":"u-ben","type":"users"}}`, malformedDocument},
		"type twice":                {`{"data":{"id":"u-grace","type":"users","type":"users"}}`, malformedDocument},
		"data twice":                {`{"data":{"id":"u-grace","type":"users"},"data":{"id":"u-ben","type":"users"}}`, malformedDocument},
		"data twice, escaped":       {`{"data":{"id":"u-grace","type":"users"},"d\u0061ta":{"id":"u-ben","type":"users"}}`, malformedDocument},
		"ID beside id":              {`{"data":{"id":"u-grace","ID":"u-ben","type":"users"}}`, malformedDocument},
		"Id beside id":              {`{"data":{"Id":"u-ben","id":"u-grace","type":"users"}}`, malformedDocument},
		"ID alone":                  {`{"data":{"ID":"u-grace","type":"users"}}`, malformedDocument},
		"Type beside type":          {`{"data":{"id":"u-grace","type":"users","Type":"users"}}`, malformedDocument},
		"DATA beside data":          {`{"data":{"id":"u-grace","type":"users"},"DATA":{"id":"u-ben","type":"users"}}`, malformedDocument},
		"Data alone":                {`{"Data":{"id":"u-grace","type":"users"}}`, malformedDocument},
		"twice where nobody looks":  {`{"data":{"id":"u-grace","type":"users"},"meta":{"a":1,"a":2}}`, malformedDocument},
		"twice deep in data":        {`{"data":{"id":"u-grace","type":"users","attributes":{"x":{"a":1,"a":2}}}}`, malformedDocument},
		"unknown, twice":            {`{"data":{"id":"u-grace","type":"users"},"x":1,"x":1}`, malformedDocument},
		"null data with a variant":  {`{"data":null,"DATA":{"id":"u-grace","type":"users"}}`, malformedDocument},
		"number id with a variant":  {`{"data":{"id":1,"iD":"u-grace","type":"users"}}`, malformedDocument},
		"missing id with a variant": {`{"data":{"iD":"u-grace","type":"users"}}`, malformedDocument},
	},
	"M20": {
		"one byte too long":        {reference("u-grace") + strings.Repeat(" ", 16<<10+1-len(reference("u-grace"))), bodyTooLarge},
		"32 KiB":                   {reference("u-grace") + strings.Repeat(" ", 32<<10), bodyTooLarge},
		"20 000 deep":              {strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), bodyTooLarge},
		"8 000 deep":               {strings.Repeat("[", 8000) + strings.Repeat("]", 8000), malformedDocument},
		"8 000 deep, not closed":   {strings.Repeat("[", 16_000), malformedDocument},
		"2 500 objects deep":       {strings.Repeat(`{"x":`, 2500) + "1" + strings.Repeat("}", 2500), malformedDocument},
		"deep where nobody looks":  {`{"data":{"id":"u-grace","type":"users"},"x":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`, malformedDocument},
		"trailing object":          {reference("u-grace") + `{}`, malformedDocument},
		"trailing reference":       {reference("u-grace") + reference("u-ben"), malformedDocument},
		"trailing text":            {reference("u-grace") + ` x`, malformedDocument},
		"trailing comma":           {`{"data":{"id":"u-grace","type":"users"},}`, malformedDocument},
		"trailing NUL":             {reference("u-grace") + "\x00", malformedDocument},
		"BOM":                      {"\xef\xbb\xbf" + reference("u-grace"), malformedDocument},
		"UTF-16":                   {utf16Of(reference("u-grace")), malformedDocument},
		"invalid UTF-8 in id":      {"{\"data\":{\"id\":\"u-grace\xff\",\"type\":\"users\"}}", malformedDocument},
		"invalid UTF-8 elsewhere":  {"{\"data\":{\"id\":\"u-grace\",\"type\":\"users\"},\"x\":\"\xc0\xaf\"}", malformedDocument},
		"lone surrogate":           {`{"data":{"id":"\ud800","type":"users"}}`, malformedDocument},
		"NUL in id":                {"{\"data\":{\"id\":\"u-grace\x00\",\"type\":\"users\"}}", malformedDocument},
		"NUL in id, escaped":       {`{"data":{"id":"u-grace\u0000","type":"users"}}`, bodyRefusal(400, "invalid_member", "/data/id")},
		"NUL in type, escaped":     {`{"data":{"id":"u-grace","type":"users\u0000"}}`, bodyRefusal(400, "invalid_member", "/data/type")},
		"comment":                  {`{"data":{"id":"u-grace","type":"users"}/**/}`, malformedDocument},
		"null":                     {`null`, malformedDocument},
		"array":                    {`[` + reference("u-grace") + `]`, malformedDocument},
		"string":                   {`"u-grace"`, malformedDocument},
		"form":                     {`data[id]=u-grace&data[type]=users`, malformedDocument},
		"blank":                    {` `, malformedDocument},
		"truncated":                {`{"data":{"id":"u-grace","type":"users"}`, malformedDocument},
		"escapes that are no JSON": {`{"data":{"id":"\x75-grace","type":"users"}}`, malformedDocument},
	},
}

var (
	malformedDocument = bodyRefusal(400, "invalid_json", "-")
	bodyTooLarge      = plainRefusal(413, "invalid_request", "body_too_large")
)

func utf16Of(text string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		b.Write([]byte{byte(unit), byte(unit >> 8)})
	}
	return b.String()
}

// TestM11To14TheBodyNamesOneUserInOneWay: path and body that name different users, another type, missing, doubled or case-folded members
// → 409 or 400, nothing is issued.
func TestM11To14TheBodyNamesOneUserInOneWay(t *testing.T) {
	d := openAdmin(t)
	for _, pair := range [][2]string{
		{"u-grace", "u-ben"}, {"u-ben", "u-grace"}, {"u-grace", "U-GRACE"}, {"u-grace", "u-grace "}, {"u-grace", "u-grac"},
		{"u-grace", "u-rita"}, {"u-rita", "u-grace"}, {"u-nobody", "u-grace"}, {"u-grace", "u-nobody"}, {"u-grace", "u%2Dgrace"},
	} {
		d.refused(d.admin, mintRequest{id: pair[0], body: reference(pair[1])}, bodyRefusal(409, "id_conflict", "/data/id"))
	}
	for row, bodies := range bodyCases {
		for name, c := range bodies {
			d.sub(row+" "+name, func(d *adminDoor) { d.refused(d.admin, mintRequest{id: "u-grace", body: c.body}, c.want) })
		}
	}
	d.created(d.admin, mintRequest{id: "u-grace", body: `{"data":{"type":"\u0075sers","id":"u-\u0067race"}}`})
	// A long s is an s to some readers. None of our names has one, so that nothing can be mistaken.
	body := `{"data":{"id":"u-grace","type":"users","attributeſ":{"id":"u-ben"},"relationſhips":{}},"jſonapi":{}}`
	if sub := claims(t, d.created(d.admin, mintRequest{id: "u-grace", body: body}).AccessToken)["sub"]; sub != "u-grace" {
		t.Errorf("sub %v", sub)
	}
}

// TestM15NothingElseIsApplied: further attributes such as role, scope, expires_in → never applied.
func TestM15NothingElseIsApplied(t *testing.T) {
	d := openAdmin(t)
	more := `"role":"admin","scope":"trusted public orders.read refresh_token","scopes":["orders.read"],"organisation_id":"rival",` +
		`"organisation":"rival","expires_in":99999999,"client_id":"other","act":null,"sub":"u-ada","auth_time":1`
	for name, body := range map[string]string{
		"attributes":    `{"data":{"id":"u-grace","type":"users","attributes":{` + more + `}}}`,
		"in data":       `{"data":{"id":"u-grace","type":"users",` + more + `}}`,
		"at the top":    `{"data":{"id":"u-grace","type":"users"},` + more + `,"meta":{` + more + `}}`,
		"relationships": `{"data":{"id":"u-grace","type":"users","relationships":{"organisation":{"data":{"id":"rival","type":"organisations"}}}},"included":[]}`,
	} {
		d.sub(name, func(d *adminDoor) {
			got := d.created(d.admin, mintRequest{id: "u-grace", body: body, query: "?scope=orders.read&expires_in=9&id=u-ben"})
			claim := claims(d.t, got.AccessToken)
			if got.ExpiresIn != 2419200 || got.Scope != "trusted public" || claim["sub"] != "u-grace" || claim["role"] != "group_manager" ||
				claim["org"] != "acme" || claim["client_id"] != "conf" || claim["act"] == nil || claim["auth_time"] != nil {
				d.t.Errorf("%+v: %v", got, claim)
			}
		})
	}
}

// TestM20BodiesAreBoundedAndStrict: a body over 16 KiB, depth 20,000, a BOM, bad UTF-8, trailing text → 413 or 400.
func TestM20BodiesAreBoundedAndStrict(t *testing.T) {
	d := openAdmin(t)
	body := reference("u-grace")
	d.created(d.admin, mintRequest{id: "u-grace", body: body + strings.Repeat(" ", 16<<10-len(body))})
	d.created(d.admin, mintRequest{id: "u-grace", body: `{"data":{"id":"u-grace","type":"users"},"x":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`})
	for name, want := range map[string]mintRefusal{"chunked": bodyTooLarge, "announced": bodyTooLarge} {
		d.sub(name, func(d *adminDoor) {
			framing, payload := "Content-Length: 10000000000", ""
			if name == "chunked" {
				framing, payload = "Transfer-Encoding: chunked", "4001\r\n"+strings.Repeat(" ", 0x4001)+"\r\n"
			}
			d.decisions(d.t)
			status, header, text := d.raw(crlf(fmt.Sprintf("POST %s HTTP/1.1\nHost: %s\nAuthorization: Bearer %s\nContent-Type: %s\n%s\n\n",
				mintPath+"u-grace"+mintPathEnd, d.addr, d.admin, documentMedia, framing)) + payload)
			d.holdRefused(answer{status, header, text}, "{}", want)
		})
	}
}
