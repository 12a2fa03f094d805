// Package mail writes letters to people and keeps them until they are sent.
//
// A Letter is what is to be said to whom. Post.Send puts it into the queue in the store, sealed under the master key, and does not wait for a
// mail server. The Worker of each node claims the letters that are due and hands them, as Messages in the language of the reader, to a
// Sender. The claim of a node that stops expires, and another node sends the letter. So a letter is sent at least once: a node that stops
// between the mail server's consent and the deletion of the letter makes it arrive twice, with the same Message-ID. So does a server that has the
// message and whose answer is lost, or comes too late.
//
// letter.go is the letter, post.go the queue, message.go the words, worker.go the sending. Package mail/smtp is a Sender.
package mail
