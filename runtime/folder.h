/* Folders that only their owner can change: the system below the cache. */
#ifndef SMLA_RUNTIME_FOLDER_H
#define SMLA_RUNTIME_FOLDER_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>

/* Makes a folder and its missing parents, each 0700 whatever the umask. One that exists is fine and left as it is.
 * Returns 0 or an errno. */
int rt_folder_make(const char *path);

/* The same for one folder within an open one. */
int rt_folder_make_in(int parent, const char *name);

/* Opens a folder that rt_is_trusted. Returns a descriptor, or -1 with an errno (EPERM when it is not trusted) and a
 * sentence. rt_folder_open follows a symbolic link of this user or root, rt_folder_open_in none. */
int rt_folder_open(const char *path, int *error, char why[256]);
int rt_folder_open_in(int parent, const char *name, int *error, char why[256]);

/* Tells whether the folders above `path` keep it from others: none of them may be one that everybody can write to, but
 * for a sticky one of root (or of this user), as /tmp is, in which what leads to `path` is this user's or root's. Of
 * what is not there yet, those above that are. Follows links, which are to be this user's or root's, too. Otherwise
 * says why. */
bool rt_folder_is_kept(const char *path, char why[256]);

/* Lists an open folder; the descriptor stays the caller's. NULL with errno set; end with closedir. */
DIR *rt_folder_list(int folder);

/* True when the file or folder belongs to this user or root and nobody else can write to it. Otherwise says why. */
bool rt_is_trusted(const struct stat *status, char why[256]);

#endif
