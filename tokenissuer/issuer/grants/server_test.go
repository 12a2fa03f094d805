package grants

import (
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// Server is a complete authorization server for tests.
type Server struct {
	*issuer.Parts
	*families.Families
	*clients.Clients
	*signin.SignIns
	*signin.Sessions
	*signin.Seals
	*issuer.Minter
	*issuer.Authorizations
	*issuer.SignOuts
	*issuer.IssuedTokens
	*issuer.UserTokens
	*Grants
}

// NewServer returns a Server with an issuer's parts and an open store.
func NewServer(p *issuer.Parts, opened families.Opened) *Server {
	p.Families.Opened = opened
	return &Server{
		p, p.Families, p.Clients, p.SignIns, p.Sessions, p.Seals, p.Minter, p.Authorizations, p.SignOuts, p.Issued, p.UserTokens, New(p, Accepted{}),
	}
}
