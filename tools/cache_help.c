/* What 'smla-cache COMMAND --help' prints. */
#include "smla_cache.h"

#define OF_EACH                                                                                                        \
    "  --cache DIR             another folder\n"                                                                       \
    "  --json                  print the result as JSON\n"

const char cache_help_ls[] = "usage: smla-cache ls [FILE.smlab] [--json]\n"
                             "\n"
                             "Lists the entries of the cache folder, or of a bundle, each read in full.\n"
                             "\n" OF_EACH "\n"
                             "Exit: 0 fine, 1 an entry is damaged, 2 the folder or the bundle cannot be read.\n";

const char cache_help_path[] =
    "usage: smla-cache path [--json]\n"
    "\n"
    "Prints the cache folder: --cache, else SMLA_CACHE_DIR, else $XDG_CACHE_HOME/smla, else\n"
    "~/.cache/smla.\n"
    "\n" OF_EACH "\n"
    "Exit: 0 fine, 3 there is none.\n";

const char cache_help_info[] =
    "usage: smla-cache info KERNEL-ID|FILE|FILE.smlab [KERNEL-ID] [--json]\n"
    "\n"
    "Prints all that entries say: those whose kernel id begins with KERNEL-ID, the one in FILE (a path\n"
    "with a / or .smk), or those of a bundle, all or by KERNEL-ID. Plan and options are not in an entry: they are made "
    "again from its\n"
    "description, and printed when that gives the same kernel id.\n"
    "\n" OF_EACH "\n"
    "Exit: 0 fine, 1 there is no such entry or it is damaged, 2 usage, or it cannot be read.\n";

const char cache_help_stats[] =
    "usage: smla-cache stats [--json]\n"
    "\n"
    "Reads every entry and prints how many there are, by target, kind and compiler, when they were\n"
    "used first and last, and what else lies in the folder. An entry is read in full, so it takes as\n"
    "long as verify.\n"
    "\n" OF_EACH "\n"
    "Exit: 0 fine, also when entries are damaged (verify), 2 the folder cannot be read.\n";

const char cache_help_verify[] =
    "usage: smla-cache verify [FILE.smlab] [--repair] [--json]\n"
    "\n"
    "Reads every entry in full and checks what the loader checks: owner and mode, length, digests,\n"
    "kernel id and compiler against the name, ELF structure, target, entry point. Of a bundle also\n"
    "header, index, and what lies between the entries.\n"
    "\n"
    "  --repair                remove what is damaged; what is not trusted is left alone\n" OF_EACH "\n"
    "Exit: 0 fine, 1 something is bad that was not removed, 2 the folder or the\n"
    "bundle cannot be read.\n";

const char cache_help_gc[] =
    "usage: smla-cache gc [--max-bytes N[K|M|G]] [--older-than DAYS] [--dry-run] [--json]\n"
    "\n"
    "Removes entries, those not used for longest first, until no more than --max-bytes are left, and\n"
    "temporary files that killed writers left. Entries used within the hour stay. Use is noted once a\n"
    "day. Nobody has to wait or to be stopped: a process that has an entry needs its file no more.\n"
    "\n"
    "  --max-bytes N[K|M|G]    bytes of entries to keep (SMLA_CACHE_BYTES, else 1G)\n"
    "  --older-than DAYS       remove entries not used for longer, too\n"
    "  --dry-run               say what would be removed\n" OF_EACH "\n"
    "Exit: 0 fine, 1 something could not be removed, 2 the folder cannot be read.\n";

const char cache_help_warm[] =
    "usage: smla-cache warm --sm LIST (--op OP --h-q N --d-qk N ... | --from FILE) [-j N]\n"
    "                       [--check] [--progress] [--json]\n"
    "\n"
    "Compiles into the cache folder what is missing there (without GPU and driver), and writes\n"
    "warm.json when all is there.\n"
    "\n" SHAPES_HELP "  -j N                    compile on N threads (one a core)\n"
    "  --nvrtc PATH            the libnvrtc to use (SMLA_NVRTC, else the newest found)\n"
    "  --check                 only look: 1 unless every kernel is there, and warm.json\n"
    "  --progress              say what is compiled, a line each, where stderr is no terminal too\n" OF_EACH "\n"
    "Exit: 0 fine, 1 --check found a missing entry, or a compile failed, 2 usage, or the folder could\n"
    "not be used, 3 unsupported or unavailable here.\n";

const char cache_help_export[] =
    "usage: smla-cache export [-o FILE] [KERNEL-ID...] [--json]\n"
    "\n"
    "Writes entries whose kernel ids begin with a KERNEL-ID, or all, into one file: a tar archive of\n"
    "the entries' files (v1/...), to be unpacked by tar or taken by smla-cache import; or, where FILE\n"
    "ends in .smlab, a bundle for SMLA_BUNDLE. The same entries give the same bytes. Each is checked in\n"
    "full; a damaged one is left out.\n"
    "\n"
    "  -o FILE                 the file, else stdout\n" OF_EACH "\n"
    "Exit: 0 fine, 1 an entry was left out, or there is none, 2 usage, or a file cannot be written, 3\n"
    "libarchive is missing here.\n";

const char cache_help_import[] =
    "usage: smla-cache import FILE [--json]\n"
    "\n"
    "Takes entries from a bundle (FILE.smlab), or from a tar archive (- is stdin) as smla-cache export\n"
    "writes it, not compressed. Each is checked in full before it is written, as a compiled one is.\n"
    "What is there already is left as it is; what is damaged, or has no entry's name, is left out.\n"
    "\n" OF_EACH "\n"
    "Exit: 0 fine, 1 something was left out, 2 the file cannot be read, or the folder takes no more, 3\n"
    "libarchive is missing here.\n";

const char cache_help_doctor[] =
    "usage: smla-cache doctor [--nvrtc PATH] [--json]\n"
    "\n"
    "Says what smla would use here, and why: the bundles, the system folder and the cache folder, in\n"
    "which it looks in this order, and who can change them; the policies of the environment, which\n"
    "libnvrtc wins and what it builds, the CUDA driver and the devices. Compiles nothing and makes no\n"
    "folder.\n"
    "\n"
    "  --nvrtc PATH            the libnvrtc to use (SMLA_NVRTC, else the newest found)\n" OF_EACH "\n"
    "Exit: 0 kernels can be served here, 1 they cannot, and it says what would help, 2 usage.\n";
