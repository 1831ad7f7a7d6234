/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/probe.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* "#!/usr/bin/env -S python3 -u" -> "python3"; "#!/bin/bash -e" -> "/bin/bash". */
static void read_interpreter(const char *line, char *interpreter, size_t room)
{
	char text[256], *rest = text, *word;

	snprintf(text, sizeof(text), "%.*s", (int)strcspn(line + 2, "\n"), line + 2);
	word = strtok_r(text, " \t", &rest);
	if (word && strlen(word) >= 4 && !strcmp(word + strlen(word) - 4, "/env"))
		do
			word = strtok_r(NULL, " \t", &rest);
		while (word && (*word == '-' || strchr(word, '=')));
	snprintf(interpreter, room, "%s", word ? word : "");
}

/* Calls @symbol for each defined dynamic symbol, and fills needed; either may be NULL. */
static void walk_dynamic(Elf *elf, struct lw_probe *probe, const char *part, size_t *n_found)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section))) {
		Elf_Data *data;
		GElf_Shdr header;

		if (!gelf_getshdr(section, &header) || !header.sh_entsize ||
			!(data = elf_getdata(section, NULL)))
			continue;
		for (int i = 0; i < (int)(header.sh_size / header.sh_entsize); i++) {
			GElf_Dyn entry;
			GElf_Sym symbol;
			const char *name;

			if (probe && header.sh_type == SHT_DYNAMIC &&
				gelf_getdyn(data, i, &entry) && entry.d_tag == DT_NEEDED &&
				probe->n_needed < LW_PROBE_MAX_NEEDED) {
				name = elf_strptr(elf, header.sh_link, entry.d_un.d_val);
				snprintf(probe->needed[probe->n_needed++], sizeof(probe->needed[0]),
					"%s", name ? name : "");
			} else if (part && header.sh_type == SHT_DYNSYM &&
				   gelf_getsym(data, i, &symbol) && symbol.st_shndx != SHN_UNDEF) {
				name = elf_strptr(elf, header.sh_link, symbol.st_name);
				*n_found += name && strstr(name, part);
			}
		}
	}
}

static enum lw_probe_kind read_elf(Elf *elf, struct lw_probe *probe)
{
	bool has_loader = false, is_dynamic = false;
	size_t n_segments = 0;
	GElf_Ehdr header;

	if (!gelf_getehdr(elf, &header) || elf_getphdrnum(elf, &n_segments) < 0)
		return LW_PROBE_OTHER;
	for (int i = 0; i < (int)n_segments; i++) {
		GElf_Phdr segment;

		if (!gelf_getphdr(elf, i, &segment))
			continue;
		has_loader |= segment.p_type == PT_INTERP;
		is_dynamic |= segment.p_type == PT_DYNAMIC;
	}
	walk_dynamic(elf, probe, NULL, NULL);
	if (has_loader)
		return LW_PROBE_DYNAMIC;
	return header.e_type == ET_DYN && is_dynamic && probe->n_needed ? LW_PROBE_LIBRARY
									: LW_PROBE_STATIC;
}

void lw_probe_file(const char *path, struct lw_probe *ret_probe)
{
	char head[256] = "";
	struct stat st;
	Elf *elf;
	int fd;

	*ret_probe = (struct lw_probe){.kind = LW_PROBE_MISSING};
	snprintf(ret_probe->path, sizeof(ret_probe->path), "%s", path);
	if (stat(path, &st) < 0)
		return;
	ret_probe->kind = LW_PROBE_NOT_EXECUTABLE;
	if (!S_ISREG(st.st_mode) || (access(path, X_OK) < 0 && !strstr(path, ".so")))
		return;
	ret_probe->kind = LW_PROBE_OTHER;
	ret_probe->is_privileged = (st.st_mode & (S_ISUID | S_ISGID)) ||
				   getxattr(path, "security.capability", NULL, 0) > 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (pread(fd, head, sizeof(head) - 1, 0) > 2 && !memcmp(head, "#!", 2)) {
		ret_probe->kind = LW_PROBE_SCRIPT;
		read_interpreter(head, ret_probe->interpreter, sizeof(ret_probe->interpreter));
	} else if (elf_version(EV_CURRENT) != EV_NONE && (elf = elf_begin(fd, ELF_C_READ, NULL))) {
		if (elf_kind(elf) == ELF_K_ELF)
			ret_probe->kind = read_elf(elf, ret_probe);
		elf_end(elf);
	}
	close(fd);
}

void lw_probe_command(const char *name, struct lw_probe *ret_probe)
{
	const char *path = getenv("PATH");
	struct lw_probe found = {.kind = LW_PROBE_MISSING};
	char *dirs, *rest, *dir;

	if (strchr(name, '/') || !path || !(dirs = strdup(path))) {
		lw_probe_file(name, ret_probe);
		return;
	}
	snprintf(found.path, sizeof(found.path), "%s", name);
	rest = dirs;
	while ((dir = strsep(&rest, ":"))) {
		char candidate[4096];

		snprintf(candidate, sizeof(candidate), "%s/%s", *dir ? dir : ".", name);
		lw_probe_file(candidate, ret_probe);
		if (ret_probe->kind > LW_PROBE_NOT_EXECUTABLE)
			break;
	}
	free(dirs);
	if (!dir)
		*ret_probe = found;
}

bool lw_probe_needs(const struct lw_probe *probe, const char *prefix)
{
	for (size_t i = 0; i < probe->n_needed; i++)
		if (!strncmp(probe->needed[i], prefix, strlen(prefix)))
			return true;
	return false;
}

size_t lw_probe_count_symbols(const char *path, const char *part)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n_found = 0;
	Elf *elf;

	if (fd < 0)
		return 0;
	if (elf_version(EV_CURRENT) != EV_NONE && (elf = elf_begin(fd, ELF_C_READ, NULL))) {
		walk_dynamic(elf, NULL, part, &n_found);
		elf_end(elf);
	}
	close(fd);
	return n_found;
}
