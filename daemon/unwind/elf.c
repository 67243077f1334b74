/* Section headers first; without them (a file that was stripped of its headers) PT_GNU_EH_FRAME
 * tells where .eh_frame begins, and it goes on to its terminator or the segment's end. */
#include "unwind/elf.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

#define PHDRS_MAX 512u
#define SHDRS_MAX 65536u
#define NAMES_MAX (1u << 20)
#define NOTES_MAX 65536u

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#endif

static int get(struct unwind_source *source, void *dst, size_t size, uint64_t offset)
{
	if (offset > source->size || size > source->size - offset)
		return -EBADMSG;
	return source->read(source, dst, size, offset);
}

static void cover(struct elf_frames *elf, uint64_t address, uint64_t size)
{
	uint64_t end = elf->text + elf->text_size;

	if (!size || address + size < address)
		return;
	if (!elf->text_size) {
		elf->text = address;
		elf->text_size = size;
		return;
	}
	if (address + size > end)
		end = address + size;
	if (address < elf->text)
		elf->text = address;
	elf->text_size = end - elf->text;
}

/* Elf64_Nhdr, name and description, each filled up to 4 bytes. */
static void read_notes(struct unwind_source *source, uint64_t offset, uint64_t size,
		       struct unwind_identity *identity)
{
	Elf64_Nhdr note;
	uint64_t end, body;
	char name[4];

	if (size > NOTES_MAX || offset > source->size || size > source->size - offset)
		return;
	end = offset + size;
	while (!identity->build_id_size && end - offset >= sizeof(note)) {
		if (get(source, &note, sizeof(note), offset))
			return;
		offset += sizeof(note);
		body = offset + (((uint64_t)note.n_namesz + 3) & ~3ull);
		if (body > end || note.n_descsz > end - body)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && note.n_descsz &&
		    note.n_descsz <= sizeof(identity->build_id) && !get(source, name, 4, offset) &&
		    !memcmp(name, "GNU", 4)) {
			if (!get(source, identity->build_id, note.n_descsz, body))
				identity->build_id_size = note.n_descsz;
			return;
		}
		offset = body + (((uint64_t)note.n_descsz + 3) & ~3ull);
		if (offset > end)
			return;
	}
}

static void take_section(struct unwind_source *source, struct elf_section *section,
			 const Elf64_Shdr *header)
{
	if (section->size || header->sh_type == SHT_NOBITS || header->sh_flags & SHF_COMPRESSED ||
	    header->sh_offset >= source->size)
		return;
	section->address = header->sh_addr;
	section->offset = header->sh_offset;
	section->size = source->size - header->sh_offset;
	if (header->sh_size < section->size)
		section->size = header->sh_size;
}

static int read_sections(struct unwind_source *source, const Elf64_Ehdr *header,
			 struct elf_frames *elf)
{
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	_cleanup_free_ char *names = NULL;
	uint32_t n = header->e_shnum, i, strings = header->e_shstrndx;
	Elf64_Shdr first;
	uint64_t size;
	int err;

	if (!header->e_shoff || header->e_shentsize != sizeof(first) ||
	    get(source, &first, sizeof(first), header->e_shoff))
		return 0; /* there are none */
	/* gABI: what does not fit into the header is in the first section's. */
	if (!n)
		n = first.sh_size > SHDRS_MAX ? SHDRS_MAX : (uint32_t)first.sh_size;
	if (strings == SHN_XINDEX)
		strings = first.sh_link;
	if (strings >= n)
		return 0;
	sections = malloc(n * sizeof(*sections));
	if (!sections)
		return -ENOMEM;
	if (get(source, sections, n * sizeof(*sections), header->e_shoff))
		return 0;
	size = sections[strings].sh_size > NAMES_MAX ? NAMES_MAX : sections[strings].sh_size;
	names = malloc(size + 1);
	if (!names)
		return -ENOMEM;
	err = get(source, names, size, sections[strings].sh_offset);
	if (err)
		return 0;
	names[size] = 0;
	elf->headers = header->e_shoff;
	elf->loaded_only = header->e_type == ET_REL;
	elf->n_headers = n;
	for (i = 1; i < n; i++) {
		const Elf64_Shdr *s = &sections[i];
		const char *name = s->sh_name < size ? names + s->sh_name : "";

		if (!strcmp(name, ".eh_frame"))
			take_section(source, &elf->eh_frame, s);
		else if (!strcmp(name, ".debug_frame"))
			take_section(source, &elf->debug_frame, s);
		else if (!strcmp(name, ".got.plt") || (!elf->got && !strcmp(name, ".got")))
			elf->got = s->sh_addr;
		else if (header->e_type == ET_REL && !strcmp(name, ".rela.eh_frame"))
			take_section(source, &elf->relocations, s);
		else if (header->e_type == ET_REL && s->sh_type == SHT_SYMTAB)
			take_section(source, &elf->symbols, s);
		if (s->sh_type == SHT_SYMTAB ||
		    (s->sh_type == SHT_DYNSYM && !elf->functions.size)) {
			elf->functions.size = 0;
			take_section(source, &elf->functions, s);
			elf->function_names = s->sh_link;
		}
		if (s->sh_type == SHT_NOTE)
			read_notes(source, s->sh_offset, s->sh_size, &elf->identity);
		/* An object of a JIT compiler has no segments; its sections lie where it was
		 * loaded. */
		if (header->e_type == ET_REL && s->sh_flags & SHF_EXECINSTR && s->sh_addr)
			cover(elf, s->sh_addr, s->sh_size);
	}
	return 0;
}

/* .eh_frame_hdr: version 1, encoding of the pointer to .eh_frame, of which 4 bytes relative to the
 * pointer itself (0x1b) is what linkers write. */
static void from_segment(struct unwind_source *source, const Elf64_Phdr *hdr,
			 const Elf64_Phdr *loads, unsigned n, struct elf_section *section)
{
	struct {
		uint8_t version, pointer, count, table;
		int32_t offset;
	} head;
	uint64_t address;
	unsigned i;

	if (get(source, &head, sizeof(head), hdr->p_offset) || head.version != 1 ||
	    head.pointer != 0x1b)
		return;
	address = hdr->p_vaddr + 4 + (uint64_t)(int64_t)head.offset;
	for (i = 0; i < n; i++) {
		uint64_t in = address - loads[i].p_vaddr;

		if (in >= loads[i].p_filesz || loads[i].p_offset > source->size ||
		    in >= source->size - loads[i].p_offset)
			continue;
		section->address = address;
		section->offset = loads[i].p_offset + in;
		section->size = loads[i].p_filesz - in;
		if (section->size > source->size - section->offset)
			section->size = source->size - section->offset;
		return;
	}
}

/* Is it a dynamic linker, where the kernel begins a program? What is there takes the stack pointer as its argument, before anything was
 * pushed: no function that is called does (glibc's RTLD_START; musl's START, which sets rbp to 0 first). Other libraries have an entry, too. */
static bool begins_processes(struct unwind_source *source, const Elf64_Ehdr *header, const Elf64_Phdr *segments)
{
	static const struct {
		uint8_t bytes[7], size;
	} starts[] = {
		{{0x48, 0x89, 0xe7, 0xe8}, 4},                   /* mov %rsp, %rdi; call */
		{{0x48, 0x31, 0xed, 0x48, 0x89, 0xe7, 0x48}, 7}, /* xor %rbp, %rbp; mov %rsp, %rdi; lea */
	};
	uint8_t bytes[12];
	unsigned i, skip;

	for (i = 0; i < header->e_phnum; i++) {
		const Elf64_Phdr *s = &segments[i];

		if (s->p_type == PT_LOAD && s->p_flags & PF_X && header->e_entry >= s->p_vaddr &&
		    header->e_entry - s->p_vaddr < s->p_filesz && s->p_filesz - (header->e_entry - s->p_vaddr) >= sizeof(bytes))
			break;
	}
	if (i == header->e_phnum ||
	    source->read(source, bytes, sizeof(bytes), segments[i].p_offset + (header->e_entry - segments[i].p_vaddr)))
		return false;
	skip = !memcmp(bytes, "\xf3\x0f\x1e\xfa", 4) ? 4 : 0; /* endbr64 */
	for (i = 0; i < sizeof(starts) / sizeof(*starts); i++)
		if (starts[i].size + skip <= sizeof(bytes) && !memcmp(bytes + skip, starts[i].bytes, starts[i].size))
			return true;
	return false;
}

int elf_frames__open(struct unwind_source *source, struct elf_frames *ret)
{
	_cleanup_free_ Elf64_Phdr *segments = NULL;
	const Elf64_Phdr *hdr = NULL;
	struct elf_frames elf = {};
	bool program = false;
	Elf64_Ehdr header;
	unsigned i, loads = 0;
	int err;

	if (get(source, &header, sizeof(header), 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    header.e_machine != MACHINE)
		return -EBADMSG;
	if (header.e_phnum) {
		if (header.e_phentsize != sizeof(*segments) || header.e_phnum > PHDRS_MAX)
			return -EBADMSG;
		segments = malloc(header.e_phnum * sizeof(*segments));
		if (!segments)
			return -ENOMEM;
		if (get(source, segments, header.e_phnum * sizeof(*segments), header.e_phoff))
			return -EBADMSG;
	}
	err = read_sections(source, &header, &elf);
	if (err)
		return err;
	for (i = 0; i < header.e_phnum; i++) {
		const Elf64_Phdr *s = &segments[i];

		if (s->p_type == PT_NOTE)
			read_notes(source, s->p_offset, s->p_filesz, &elf.identity);
		else if (s->p_type == PT_INTERP)
			program = true;
		else if (s->p_type == PT_LOAD && s->p_flags & PF_X)
			cover(&elf, s->p_vaddr, s->p_memsz);
	}
	for (i = 0; i < header.e_phnum; i++) {
		if (segments[i].p_type == PT_GNU_EH_FRAME)
			hdr = &segments[i];
	}
	if (!elf.eh_frame.size && hdr) {
		Elf64_Phdr copy = *hdr;

		for (i = 0; i < header.e_phnum; i++)
			if (segments[i].p_type == PT_LOAD)
				segments[loads++] = segments[i];
		from_segment(source, &copy, segments, loads, &elf.eh_frame);
	}
	if (program || header.e_type == ET_EXEC || begins_processes(source, &header, segments))
		elf.entry = header.e_entry;
	if (!elf.text_size || (!elf.eh_frame.size && !elf.debug_frame.size && !elf.functions.size))
		return -ENODATA;
	elf.identity.machine = header.e_machine;
	elf.identity.text = elf.text;
	elf.identity.text_size = elf.text_size;
	elf.identity.frames = elf.eh_frame.size ? elf.eh_frame.address : elf.debug_frame.offset;
	elf.identity.frames_size = elf.eh_frame.size ? elf.eh_frame.size : elf.debug_frame.size;
	elf.identity.symbols = elf.functions.offset;
	elf.identity.symbols_size = elf.functions.size;
	*ret = elf;
	return 0;
}

int table__identify(struct unwind_source *source, struct unwind_identity *ret)
{
	struct elf_frames elf;
	int err = elf_frames__open(source, &elf);

	if (!err)
		*ret = elf.identity;
	return err;
}
