// Package moving reads the tables of another authorization server and turns their rows into what the admin API imports. It only reads, page by
// page in the order of the primary key, so the other server goes on meanwhile and the memory needed does not depend on the number of rows.
//
// source.go is what a table and a row are. sql.go reads PostgreSQL and MySQL, and jsonl.go a dump with one row a line. doorkeeper.go knows the
// tables of Doorkeeper, and devise.go the one of Devise.
package moving
