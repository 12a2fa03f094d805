package admin

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var factorOperations = map[Route]operation{
	ListFactors:   shows[[]Factor]("Lists the second factors of a user", bare(listFactors)),
	RemoveFactors: changes("Removes all second factors of a user", bare(removeFactors)),
	RemoveFactor:  changes("Removes a second factor of a user", bare(removeFactors)),
}

// Factor is what an operator sees of a second factor.
type Factor struct {
	ID         string           `json:"id"`
	Kind       store.FactorKind `json:"kind"`
	Name       string           `json:"name,omitzero"`
	CreatedAt  time.Time        `json:"created_at"`
	LastUsedAt time.Time        `json:"last_used_at,omitzero"`
	// CodesLeft is the number of recovery codes that were not used.
	CodesLeft *int `json:"codes_left,omitzero"`
}

func listFactors(t *Target, r *http.Request) (int, any, error) {
	user, err := t.Registry.People.UserNamed(r.Context(), r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	factors := t.Issuer.SignIns.Factors
	own, err := factors.Of(r.Context(), user)
	return listed(own, err, func(f *store.Factor) Factor {
		view := Factor{ID: f.ID, Kind: f.Kind, Name: f.Name, CreatedAt: f.CreatedAt, LastUsedAt: f.LastUsedAt}
		if f.Kind == store.RecoveryCodes {
			left := factors.CodesLeft(f)
			view.CodesLeft = &left
		}
		return view
	})
}

// removeFactors removes one factor of a user, or all. Sessions go on: an operator who doubts them ends them too.
func removeFactors(t *Target, r *http.Request) (int, any, error) {
	user, err := t.Registry.People.UserNamed(r.Context(), r.PathValue("id"))
	if err == nil {
		err = checkVersion(r, versionOfUser(user))
	}
	if err != nil {
		return 0, nil, err
	}
	fields := []zap.Field{zap.String("subject", user.ID)}
	if id := r.PathValue("factor"); id != "" {
		fields = append(fields, zap.String("factor", id))
		err = t.Issuer.SignIns.Factors.Remove(r.Context(), user, id)
	} else {
		err = t.Issuer.SignIns.Factors.RemoveAll(r.Context(), user)
	}
	if err != nil {
		return 0, nil, err
	}
	t.record(r.Context(), "factor removed", fields...)
	return http.StatusNoContent, nil, nil
}
