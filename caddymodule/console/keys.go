package console

import (
	"net/url"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// keyTones are the tones of the states of keys.
var keyTones = map[keys.State]string{keys.StateSigning: "good", keys.StateRefused: "bad", keys.StateRevoked: "quiet", keys.StateSuperseded: "quiet"}

// listKeys lists the signing keys.
func listKeys(v *visit) (sheet, error) {
	found, _, err := readAs[[]admin.Key](v.context(), &v.operator, admin.Ask{Route: admin.ListKeys})
	if err != nil {
		return sheet{}, err
	}
	list := &pages.Table{Head: heads("console.key.id", "console.key.algorithm", "console.key.state", "console.key.from", "console.key.due", "console.do"), Empty: pages.Say("console.key.none")}
	for i := range found {
		k := &found[i]
		due := cells(pages.Cell{Phrase: pages.Say("console.key.by_hand"), Tone: "quiet"})
		switch {
		case !k.DueAt.IsZero():
			due = cells(at(k.DueAt))
		case k.State != keys.StateSigning:
			due = nil
		}
		do := cells()
		if k.RevokedAt.IsZero() {
			do = cells(pages.Cell{Phrase: pages.Say("console.do.revoke_key"), URL: to("/keys/act", "do", "revoke_key", "id", k.ID)})
		}
		more := []pages.Fact{{Name: pages.Say("console.created"), Cells: cells(at(k.CreatedAt))}}
		if !k.RevokedAt.IsZero() {
			more = append(more, pages.Fact{Name: pages.Say("console.key.revoked_at"), Cells: cells(at(k.RevokedAt))})
		}
		sealed := phrase("console.key.clear")
		if k.SealedWith != "" {
			sealed = code(k.SealedWith)
		}
		more = append(more, pages.Fact{Name: pages.Say("console.key.sealed"), Cells: cells(sealed)})
		list.Rows = append(list.Rows, pages.Row{Cells: [][]pages.Cell{
			cells(code(k.ID)), cells(code(string(k.Algorithm))), cells(pages.Cell{Phrase: pages.Say("console.key_state." + string(k.State)), Tone: keyTones[k.State]}),
			cells(at(k.ActiveFrom)), due, do,
		}, More: more})
	}
	return sheet{title: "console.place.keys", blocks: []pages.Block{{
		Words: []pages.Phrase{pages.Say("console.key.words")}, Table: list,
		Links: []pages.ConsoleLink{{Phrase: pages.Say("console.key.rotate"), URL: to("/keys/rotate")}},
	}}}, nil
}

// rotateKeys publishes a new key, which signs in a while, or now.
func rotateKeys(v *visit) (*form, error) {
	f := &form{
		sheet:  sheet{title: "console.key.rotate", blocks: []pages.Block{{Words: []pages.Phrase{pages.Say("console.key.rotate.words")}}}},
		submit: pages.Say("console.key.rotate"), cancel: to("/keys"),
		fields: []pages.ConsoleField{{Name: "when", Kind: "choice", Label: pages.Say("console.key.when"), Choices: []pages.Choice{
			{Value: "later", Phrase: pages.Say("console.key.later"), Chosen: true}, {Value: "now", Phrase: pages.Say("console.key.now")},
		}}},
	}
	if algorithms := v.operator.Target.Node.KeyRing().Algorithms; len(algorithms) > 1 {
		field := pages.ConsoleField{Name: "algorithm", Kind: "choice", Label: pages.Say("console.key.algorithm")}
		for i, algorithm := range algorithms {
			field.Choices = append(field.Choices, pages.Choice{Value: string(algorithm), Phrase: pages.Phrase{Text: string(algorithm)}, Chosen: i == 0})
		}
		f.fields = append(f.fields, field)
	}
	f.send = func(values url.Values) (result, error) {
		_, err := v.ask(admin.Ask{Route: admin.RotateKeys, Body: admin.NewKey{Algorithm: oauth.Algorithm(values.Get("algorithm")), Now: values.Get("when") == "now"}})
		return result{url: to("/keys"), done: true}, err
	}
	return f, nil
}

// keyActions are the changes of keys that are asked about.
var keyActions = map[string]action{
	"revoke_key": {route: admin.RevokeKey, back: "/keys", danger: true, body: func(v *visit, _ url.Values) (any, error) {
		return map[string]string{"kid": v.query("id")}, nil
	}},
}
