libexec := $(DESTDIR)$(PREFIX)/libexec/anyjev-pipe
share   := $(DESTDIR)$(PREFIX)/share/anyjev-pipe

install: all ## install into PREFIX (default /usr/local)
	install -d $(libexec) $(share)/examples $(share)/terms $(DESTDIR)$(PREFIX)/bin
	install -m 755 $(PROGRAMS:%=$(BIN)/%) $(libexec)
	[ ! -e $(BIN)/libanyjev_cuda.so ] || install -m 755 $(BIN)/libanyjev_cuda.so $(libexec)
	install -m 755 bin/anyjev-pipe $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(filter-out pipelines/examples pipelines/terms,$(wildcard pipelines/*.*)) $(share)
	install -m 644 $(wildcard pipelines/examples/*) $(share)/examples
	install -m 644 $(wildcard pipelines/terms/*) $(share)/terms
	for s in 1 5 7; do install -d $(DESTDIR)$(PREFIX)/share/man/man$$s; for m in man/*.$$s; do [ ! -e "$$m" ] || install -m 644 "$$m" $(DESTDIR)$(PREFIX)/share/man/man$$s; done; done

dist: ## a tarball of the tracked files
	git archive --prefix=anyjev-pipe-$(VERSION)/ -o anyjev-pipe-$(VERSION).tar.gz HEAD

clean: ## remove what was built (models/ and out/ stay)
	rm -rf build $(PROGRAMS:%=bin/%) bin/libanyjev_cuda.so

lint: ## compile with clang, warnings as errors; shellcheck; man pages
	@$(MAKE) --no-print-directory CC=clang WERROR=1 CUDA=0 BUILD=build/clang BIN=build/clang/bin all
	shellcheck -x bin/anyjev-pipe .ci/run tests/run tests/gpu_check.sh pipelines/*.sh
	mandoc -T lint -W warning $(MAN)
