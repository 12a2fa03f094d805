# Everything here runs from a fresh clone. `.ci/run` calls the same targets.

NPM_DIR = caddymodule/testdata/npm
FUZZTIME ?= 30s

# A go.work file around the checkout must not change what is built and tested.
export GOWORK = off

# What is compiled is the same for all targets, and the same as in xcaddy.sh, so that nothing is compiled twice, nor again in another
# directory. The tags leave databases of Caddy's own certificate authority out that nothing here uses.
TAGS = nobadger,nomysql,nopgx
export GOFLAGS := $(shell go env GOFLAGS) -trimpath -tags=$(TAGS)
export CGO_ENABLED = 0

# The race detector waits a second at the end of every process, for reports that are being written.
export GORACE = atexit_sleep_ms=50

.PHONY: build quick test crash cluster floods screenshots lint fmt bench bench-check fuzz clean

# ./caddy, with Gatehouse in it.
build:
	./xcaddy.sh

# The Debian package of ./caddy in dist/, for this machine. VERSION is its version.
VERSION ?= 0.1.0+git$(shell TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format=%cd.%h)
.PHONY: package package-try
package: build
	packaging/deb caddy $$(dpkg --print-architecture) '$(VERSION)' dist

# Installs that package in a clean Debian root, serves, upgrades and purges it. It takes a minute, and needs root and a Debian mirror.
package-try: build
	packaging/deb caddy $$(dpkg --print-architecture) 0.1.0~0 dist/first
	packaging/deb caddy $$(dpkg --print-architecture) 0.1.0~1 dist/later
	packaging/try dist/first/*.deb dist/later/*.deb

# The container image of ./caddy in dist/, without a daemon: see packaging/Dockerfile. image-try runs it, with root.
IMAGE_TAG = $(subst +,-,$(VERSION))
.PHONY: image image-try
image: build
	rm -rf dist/image
	packaging/rootfs caddy dist/image
	go run -C tools/release ./image -dockerfile $(CURDIR)/packaging/Dockerfile -root $(CURDIR)/dist/image -arch $$(go env GOARCH) \
		-version '$(VERSION)' -epoch $$(git log -1 --format=%ct) -name 'gatehouse:$(IMAGE_TAG)' -o $(CURDIR)/dist/gatehouse_image.tar
image-try: image
	packaging/try-image dist/gatehouse_image.tar

# packaging/kubernetes.yaml, from the Helm chart; and the checks of both. helm is large: its first build takes minutes.
HELM = go tool -modfile=tools/release/go.mod helm
.PHONY: chart chart-check
chart:
	{ echo '# Gatehouse on Kubernetes, without Helm: the chart in packaging/chart with packaging/kubernetes-values.yaml. Do not edit: make chart.'; \
		$(HELM) template gatehouse packaging/chart --values packaging/kubernetes-values.yaml; } >packaging/kubernetes.yaml.new
	mv packaging/kubernetes.yaml.new packaging/kubernetes.yaml
chart-check:
	go -C tools/release test -vet=off -count=1 ./...

# All that a release has, in dist/release, with SHA256SUMS, after the checks that .ci/run leaves out. It needs root, and a Debian mirror.
.PHONY: release
release: chart-check package-try image-try
	rm -rf dist/release
	packaging/release '$(VERSION)' dist/release

# Most tests: no root, no PostgreSQL (-short leaves out what would start it), no browser, no network. What has not changed since it passed is
# not run again. Left out by name are those that need Chromium, Node or nginx, a store that waits for its disk, and the rows of sign-in, mail,
# accounts, the console, imports, faults, keys and tokens for members, which wait, hash many passwords or flood a gate. They are for `make test`.
LEFT_OUT = Browser|Interop|Nginx|Traefik|^TestSQLiteDurable|^Test([AFIKM][0-9]|E(3|59|8|9)|D(2|K)|O([2467]|T)|P(26|92)|Q(1[01589]|49)|S(11|132)|T(1|2|36|[4-9])|V(4|9|12)|G(14|29|44|59|63|7|8|9|12|13)|W(28|3|81)|AUserFrom|Account|Command|Login|Metrics|Migrate|Trusted|Wycheproof)
quick:
	go test -short -vet=off -ldflags='-s -w' -skip '$(LEFT_OUT)' $$(go list ./... | grep -vE '/(rig|internal/([^p]|pg).*)$$')

# SQLite is a translation from C, millions of lines that the race detector knows nothing of and makes five times slower. Ours, and the
# driver around it, are watched. So is not Argon2, which fills its memory from goroutines of its own. A package belongs here only if it uses no
# atomics and no generics of others: the linker takes one copy of each, and the detector would miss what orders others.
UNWATCHED = $(foreach package,modernc.org/sqlite/lib modernc.org/libc/... modernc.org/memory \
	$(addprefix golang.org/x/crypto/,argon2 blowfish scrypt),-gcflags=$(package)=-race=false)

# The failpoints at which nodes are killed are compiled in. Without their variable they do nothing.
WATCHED = -race $(UNWATCHED) -tags=$(TAGS),failpoint
RACE = CGO_ENABLED=1 go test -vet=off -ldflags='-s -w' $(WATCHED)

# Installs what the tests need and runs all of them. go vet is a part of make lint. The race detector needs a C compiler; some tests start
# PostgreSQL servers of their own, some drive Gatehouse with Node clients and with Chromium, some stand behind nginx, and some are
# applications of docs/guides. A process has one Caddy, so the tests of ./caddymodule run in three processes of one binary: each takes every
# third test in the order of the files, which gives all three about as much to do. ./tokenissuer/sqlstore takes the longest of the others and
# begins first. The tests of ./rig run when these are over, because they measure nodes and kill them, 80 at random; G81 is there for make
# floods, and ./caddymodule proves it. TESTFLAGS are flags of go test, with = before a value.
SHARES = 0 1 2
test: $(NPM_DIR)/node_modules/.package-lock.json
	.ci/need-postgres gcc=gcc,libc6-dev chromium=chromium nginx=nginx /usr/sbin/slapd=slapd /usr/sbin/mariadbd=mariadb-server \
		/usr/sbin/postfix=postfix /usr/lib/apache2/modules/mod_auth_openidc.so=libapache2-mod-auth-openidc \
		/usr/lib/python3/dist-packages/authlib=python3-authlib,python3-flask,python3-requests
	$(RACE) -c -o dist/ ./caddymodule ./rig
	all=''; failed=0; \
	packages() { (cd $$1 && shift && $(RACE) -shuffle=on -count=1 -timeout=30m $(TESTFLAGS) "$$@") & all="$$all $$!"; }; \
	binary() { (cd $$1 && ../dist/$$1.test -test.paniconexit0 -test.shuffle=on -test.timeout=30m $(TESTFLAGS:-%=-test.%) "$$2" "$$3") & all="$$all $$!"; }; \
	packages . $$(go list ./tokenissuer/sqlstore; go list ./... | grep -vE '/(caddymodule|rig|sqlstore)$$'); packages bench ./...; others=$$all; all=''; \
	for share in $(SHARES); do \
		names=$$(dist/caddymodule.test -test.list . | awk -v share=$$share 'NR % $(words $(SHARES)) == share' | paste -sd '|'); \
		[ -n "$$names" ] || failed=1; \
		binary caddymodule -test.run "^($$names)\$$"; \
	done; \
	for one in $$all; do wait $$one || failed=1; done; \
	all=$$others; binary rig -test.skip '^TestG81'; \
	for one in $$all; do wait $$one || failed=1; done; \
	exit $$failed

# More of the kills of make test, at random moments and at named points, on SQLite and on PostgreSQL, with a check of what clients have seen.
# For example: make crash CRASH_KILLS=1000 STORE=postgres CRASH_SEED=1.
CRASH_KILLS ?= 200
crash:
	.ci/need-postgres gcc=gcc,libc6-dev
	CRASH_KILLS=$(CRASH_KILLS) STORE=$(STORE) CRASH_SEED=$(CRASH_SEED) CRASH_ROWS=$(CRASH_ROWS) \
		$(RACE) -count=1 -parallel=4 -timeout=2h -v -run '^Test(Crash|F1K)' ./rig

# npm writes this file last, so it stands for a complete install.
%/node_modules/.package-lock.json: %/package.json %/package-lock.json
	.ci/need node=nodejs npm=npm
	cd $* && npm ci
	touch $@

# Many nodes on one PostgreSQL, by the thousand: see docs/reliability.md. It takes half an hour, and
# prints what it has measured.
cluster:
	.ci/need-postgres
	mkdir -p dist
	rm -f dist/cluster.md
	GATEHOUSE_CLUSTER_TABLE=$(CURDIR)/dist/cluster.md go test -count=1 -timeout 2h -run 'Nodes$$' ./rig; \
		status=$$?; cat dist/cluster.md; exit $$status

# Slow clients by the ten thousand and ten minutes of bad tokens: see docs/reliability.md. It takes half an hour and needs 20,000
# files a process.
floods:
	mkdir -p dist
	rm -f dist/floods.md
	GATEHOUSE_CLUSTER_TABLE=$(CURDIR)/dist/floods.md go test -count=1 -timeout 2h -run '^Test(F23|F25|G81)' ./rig; \
		status=$$?; cat dist/floods.md; exit $$status

# Pictures of every page in dist/screenshots, also with an operator's colours and languages, and of four in docs/images for the README.
screenshots: $(NPM_DIR)/node_modules/.package-lock.json
	.ci/need chromium=chromium
	GATEHOUSE_SCREENSHOTS=$(CURDIR)/dist/screenshots go test -count=1 -run '^Test(BrowserLooks|U18.*|O80.*)$$' ./caddymodule
	mkdir -p docs/images
	cp dist/screenshots/readme/*.png docs/images/

# docs/threats.md, from the names and the first sentences of the tests.
.PHONY: threats
threats:
	go run ./internal/promises

# docs/openapi.json, from the routes of the admin API.
.PHONY: openapi
openapi:
	go run ./internal/openapi

# Signs in to applications of docs/guides by the code of their makers, or by the libraries with which they sign in; docs/guides/README.md
# lists them. And moves a service with Doorkeeper and Devise to Gatehouse. They are modules of their own, which take minutes to build the
# first time, Argo CD the most of them.
.PHONY: guides
guides: build guides/node/node_modules/.package-lock.json
	.ci/need-postgres puma=puma /usr/share/doc/ruby-omniauth-openid-connect=ruby-omniauth-openid-connect \
		/usr/lib/python3/dist-packages/authlib=python3-authlib,python3-flask,python3-requests \
		/usr/lib/python3/dist-packages/starlette=python3-starlette,python3-httpx,python3-itsdangerous,python3-uvicorn \
		/usr/sbin/mariadbd=mariadb-server /usr/share/doc/ruby-doorkeeper=ruby-doorkeeper,ruby-activerecord \
		/usr/share/doc/ruby-devise=ruby-devise /usr/share/doc/ruby-pg=ruby-pg /usr/share/doc/ruby-mysql2=ruby-mysql2
	cd guides && go test -vet=off -ldflags='-s -w' -count=1 ./...

# The documentation as a site in dist/site: static files, with a search that needs no server.
.PHONY: site
site:
	go run ./internal/site

# As compiled for the tests, and then without the failpoints, as it is built for users.
lint: bin/lint
	.ci/need gcc=gcc,libc6-dev
	export CGO_ENABLED=1 GOFLAGS='$(GOFLAGS) $(WATCHED)'; bin/lint -tags=$(TAGS),failpoint ./... && cd bench && ../bin/lint -tags=$(TAGS),failpoint ./...
	bin/lint -tags=$(TAGS) -tests=false ./internal/failpoint ./caddymodule

fmt:
	gofmt -w .

# Benchmarks through real Caddies, for example: make bench ARGS="-h". See docs/performance.md.
bench: bin/bench
	.ci/need-postgres
	mkdir -p dist
	bin/bench -json dist/bench.json -svg docs/performance $(ARGS)

# After ./xcaddy.sh: allocation counts, and ratios of processor time with wide margins. The bounds are in bench/check.go.
bench-check: bin/bench
	bin/bench -check -caddy ./caddy $(ARGS)

# Modules of their own, and programs that run from the root of the checkout. Go itself knows what has changed.
.PHONY: bin/bench bin/lint
bin/bench:
	go build -C bench -o $(CURDIR)/bin/bench .
bin/lint:
	go build -C tools/lint -o $(CURDIR)/bin/lint .

# Each fuzz target for FUZZTIME, one after the other.
fuzz:
	@set -e; grep -rEo --include='*_test.go' --exclude-dir=node_modules '^func Fuzz[A-Za-z0-9_]*' . | \
	while IFS=: read -r file target; do \
		target=$${target#func }; \
		echo "==> $$target in $$(dirname "$$file")"; \
		go test -C "$$(dirname "$$file")" -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x; \
	done

clean:
	rm -rf caddy bin dist $(NPM_DIR)/node_modules guides/node/node_modules
