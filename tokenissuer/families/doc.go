// Package families keeps token families. A family is what one sign-in or approval gives: a browser's session, or the tokens of one client
// for one user. Its codes, refresh tokens and cookies are its id and a MAC; ending it ends all of them.
//
// families.go holds what every part of an issuer shares, born.go begins families, living.go reads them, ended.go ends and revokes them,
// and imported.go finds the credentials of families that another authorization server began.
package families
