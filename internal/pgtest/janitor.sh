# janitor ROOT-ON-STDIN: the first line names the directory of a test process. The
# end of the input is the end of that process, by whatever means, and then no
# server of its may stay.
trap '' HUP INT QUIT TERM
IFS= read -r root || exit 1
cat >/dev/null

# servers lists what was started with -DROOT/... The pattern comes by way of a pipe
# because grep would find it in its own arguments.
servers() {
	# shellcheck disable=SC2062 # the globs are of paths
	printf '^-D%s/\n' "$root" | grep -lzs --file=- /proc/[0-9]*/cmdline | cut -d/ -f3
}

# children lists the processes of which $1 is the parent.
children() {
	grep -lsx "PPid:[[:space:]]*$1" /proc/[0-9]*/status | cut -d/ -f3
}

# signal sends the signal $1 to the others, of whom some may be gone.
signal() {
	name=$1
	shift
	for pid; do kill -"$name" "$pid" 2>/dev/null; done
}

# An immediate stop gives the shared memory back. A paused server must go on for it.
for server in $(servers); do
	# shellcheck disable=SC2046 # lists of numbers, here and below
	signal CONT "$server" $(children "$server")
	signal QUIT "$server"
done
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	[ -z "$(servers)" ] && break
	sleep 0.25
done

# A server is stopped before its children are counted, so that it gets no new ones.
for server in $(servers); do
	signal STOP "$server"
	# shellcheck disable=SC2046
	signal KILL $(children "$server") "$server"
done

# Who was killed may still be closing its files.
for _ in 1 2 3 4 5 6 7 8 9 10; do
	rm -rf -- "$root" 2>/dev/null && break
	sleep 0.25
done
