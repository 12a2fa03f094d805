//go:build !unix

package sqlite

import "io/fs"

// permissionsMatter reports whether the mode of a file determines who may open it. Here access lists do, which a directory in the user's
// profile has from the start.
const permissionsMatter = false

// ownerOf returns otherwise: files have no user id here.
func ownerOf(_ fs.FileInfo, otherwise int) int { return otherwise }

// syncDirectory does nothing: directories cannot be opened for syncing here.
func syncDirectory(string) error { return nil }
