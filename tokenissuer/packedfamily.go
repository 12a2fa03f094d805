package tokenissuer

import (
	"encoding/binary"
	"time"
)

// packedFamily is a family and its user in one text, which takes a third of what they take with all their texts, and keeps no
// request alive in whose parameters one of them stood.
type packedFamily struct{ text string }

// rememberedFamily is a family and its user, unpacked.
type rememberedFamily struct {
	family TokenFamily
	user   User
}

func packFamily(f *TokenFamily, user *User) *packedFamily {
	var buffer [1024]byte
	p := packer{to: buffer[:0]}
	r := rememberedFamily{*f, *user}
	r.walk(&p)
	return &packedFamily{string(p.to)}
}

func (p *packedFamily) unpack() (*TokenFamily, *User) {
	r := new(rememberedFamily)
	r.walk(&unpacker{p.text})
	return &r.family, &r.user
}

// id is the family's, as a part of the text.
func (p *packedFamily) id() (id string) {
	(&unpacker{p.text}).text(&id) // the first one
	return id
}

// weight is at least what it takes, with its place in the memory.
func (p *packedFamily) weight() uint32 {
	const fixed = 256
	return max(leastFamilyWeight, uint32(fixed+len(p.text))) //nolint:gosec // a few kilobytes
}

// fields reads or writes one field after the other.
type fields interface {
	text(*string)
	number(*int64)
	flag(*bool)
	moment(*time.Time)
	list(*Scopes)
}

// walk has every field but the user's password, which no token needs.
func (r *rememberedFamily) walk(to fields) {
	f, u := &r.family, &r.user
	for _, text := range [...]*string{
		&f.ID, &f.UserID, &f.UserVersion, &f.ClientID, (*string)(&f.Origin), &f.Actor.Subject, &f.Actor.ClientID, &f.Note,
		&f.Standing.SessionID, &f.Standing.ActorVersion, &f.Code.RequestID, &f.Code.RedirectURI, &f.Code.Challenge, &f.RotatedBy,
		&u.ID, &u.Email, &u.Name, &u.Organisation, (*string)(&u.Role), (*string)(&u.Status), &u.Version,
	} {
		to.text(text)
	}
	for _, at := range [...]*time.Time{
		&f.AuthTime, &f.CreatedAt, &f.ExpiresAt, &f.RevokedAt, &f.RotatedAt, &f.Code.ExpiresAt, &f.Code.SpentAt, &u.CreatedAt,
	} {
		to.moment(at)
	}
	failures := int64(f.Code.Failures)
	for _, number := range [...]*int64{&f.Generation, (*int64)(&f.TokenLifetime), &failures} {
		to.number(number)
	}
	f.Code.Failures = int(failures)
	for _, flag := range [...]*bool{&f.UserDeclared, &f.Code.Refreshable, &u.Declared} {
		to.flag(flag)
	}
	to.list(&f.Scopes)
	to.list((*Scopes)(&u.Groups))
}

// packer writes what it is shown.
type packer struct{ to []byte }

func (p *packer) text(s *string) {
	p.to = append(binary.AppendUvarint(p.to, uint64(len(*s))), *s...)
}

func (p *packer) number(n *int64) { p.to = binary.AppendVarint(p.to, *n) }

func (p *packer) flag(b *bool) {
	if *b {
		p.to = append(p.to, 1)
	} else {
		p.to = append(p.to, 0)
	}
}

// moment writes when it was, and not where: stores give all times in UTC.
func (p *packer) moment(at *time.Time) {
	seconds, part := at.Unix(), int64(at.Nanosecond())
	p.number(&seconds)
	p.number(&part)
}

func (p *packer) list(names *Scopes) {
	n := int64(len(*names))
	p.number(&n)
	for i := range *names {
		p.text(&(*names)[i])
	}
}

// unpacker reads what a packer has written. The texts are parts of the one.
type unpacker struct{ from string }

func (u *unpacker) text(s *string) {
	n, size := uvarint(u.from)
	*s, u.from = u.from[size:size+int(n)], u.from[size+int(n):] //nolint:gosec // a packer has written it
}

func (u *unpacker) number(n *int64) {
	v, size := uvarint(u.from)
	*n, u.from = int64(v>>1)^-int64(v&1), u.from[size:] // zigzag, as binary.AppendVarint has it
}

func (u *unpacker) flag(b *bool) { *b, u.from = u.from[0] == 1, u.from[1:] }

func (u *unpacker) moment(at *time.Time) {
	var seconds, part int64
	u.number(&seconds)
	u.number(&part)
	*at = time.Unix(seconds, part).UTC()
}

func (u *unpacker) list(names *Scopes) {
	var n int64
	u.number(&n)
	if n == 0 {
		return
	}
	*names = make(Scopes, n)
	for i := range *names {
		u.text(&(*names)[i])
	}
}

func uvarint(from string) (v uint64, size int) { return binary.Uvarint(bytesOf(from)) }
