/* Tells everything that exec passed on to it, one "key value" a line, in a file beside itself:
 * FILE.out, where FILE is the path it was executed by. No standard stream is needed, and what is
 * told is gathered before anything is opened. Bytes beyond printable ASCII are \xNN. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static char *text;
static size_t used, room;

static void add(const char *bytes, size_t count) {
    if (used + count > room) {
        room = (used + count) * 2;
        text = realloc(text, room);
        if (!text) abort();
    }
    memcpy(text + used, bytes, count);
    used += count;
}

static void escaped(const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = bytes[i];
        char code[8];
        if (byte < ' ' || byte > '~' || byte == '\\')
            add(code, snprintf(code, sizeof code, "\\x%02x", byte));
        else
            add(bytes + i, 1);
    }
}

static void say(const char *format, ...) {
    char line[8192];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    add(line, length);
    add("\n", 1);
}

static void say_bytes(const char *key, const char *bytes, size_t count) {
    add(key, strlen(key));
    add(" ", 1);
    escaped(bytes, count);
    add("\n", 1);
}

static void say_link(const char *key, const char *path) {
    char target[4200];
    ssize_t length = readlink(path, target, sizeof target);
    if (length < 0)
        say("%s errno %d", key, errno);
    else
        say_bytes(key, target, length);
}

static void say_place(const char *key, const char *path) {
    struct stat it;
    if (stat(path, &it))
        say("%s errno %d", key, errno);
    else
        say("%s %llx:%llu", key, (unsigned long long)it.st_dev, (unsigned long long)it.st_ino);
}

static void say_file(const char *key, const char *path) {
    char content[16384];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        say("%s errno %d", key, errno);
        return;
    }
    ssize_t length = read(fd, content, sizeof content);
    close(fd);
    say_bytes(key, content, length < 0 ? 0 : length);
}

static void descriptors(void) {
    for (int fd = 0; fd < 4096; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags < 0) continue;
        struct stat it = {0};
        fstat(fd, &it);
        say("fd%d flags=%d status=%o file=%llx:%llu type=%o device=%llx offset=%lld owner=%d "
            "signal=%d pipe=%d",
            fd, flags, fcntl(fd, F_GETFL), (unsigned long long)it.st_dev,
            (unsigned long long)it.st_ino, it.st_mode, (unsigned long long)it.st_rdev,
            (long long)lseek(fd, 0, SEEK_CUR), fcntl(fd, F_GETOWN), fcntl(fd, F_GETSIG),
            fcntl(fd, F_GETPIPE_SZ));
        char key[32], path[64];
        snprintf(key, sizeof key, "fd%d.link", fd);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        say_link(key, path);
    }
}

static void signals(void) {
    for (int number = 1; number <= 64; number++) {
        struct {
            void *handler;
            unsigned long flags;
            void *restorer;
            uint64_t mask;
        } action = {0};
        if (syscall(SYS_rt_sigaction, number, NULL, &action, 8)) continue;
        say("signal%d %s flags=%lx", number,
            action.handler == SIG_IGN   ? "ignored"
            : action.handler == SIG_DFL ? "default"
                                        : "handled",
            action.flags);
    }
    uint64_t set = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &set, 8);
    say("signals.blocked %016llx", (unsigned long long)set);
    set = 0;
    syscall(SYS_rt_sigpending, &set, 8);
    say("signals.pending %016llx", (unsigned long long)set);
    stack_t stack = {0};
    sigaltstack(NULL, &stack);
    say("signals.stack flags=%d", stack.ss_flags);
    const char *names[] = {"real", "virtual", "prof"};
    for (int timer = ITIMER_REAL; timer <= ITIMER_PROF; timer++) {
        struct itimerval it = {0};
        getitimer(timer, &it);
        int armed = it.it_value.tv_sec || it.it_value.tv_usec;
        say("timer.%s armed=%d interval=%ld", names[timer], armed, (long)it.it_interval.tv_sec);
    }
}

static void identity(void) {
    uid_t uid[3];
    gid_t gid[3], groups[1024];
    getresuid(&uid[0], &uid[1], &uid[2]);
    getresgid(&gid[0], &gid[1], &gid[2]);
    say("uid %u %u %u %d", uid[0], uid[1], uid[2], setfsuid(-1));
    say("gid %u %u %u %d", gid[0], gid[1], gid[2], setfsgid(-1));
    int count = getgroups(1024, groups);
    say("groups %d", count);
    for (int i = 0; i < count; i++) say("groups.%d %u", i, groups[i]);
    pid_t pid = getpid();
    say("pid %d", pid);
    say("parent %d", getppid());
    say("session %d leads=%d", getsid(0) == pid ? 0 : getsid(0), getsid(0) == pid);
    say("group %d leads=%d", getpgrp() == pid ? 0 : getpgrp(), getpgrp() == pid);
    siginfo_t child = {0};
    int waited = waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT);
    say("children %s", waited ? "none" : child.si_pid ? "ended" : "running");
    int tty = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    say("tty %s", tty < 0 ? "none" : "there");
    if (tty >= 0) {
        struct termios modes = {0};
        struct winsize size = {0};
        tcgetattr(tty, &modes);
        ioctl(tty, TIOCGWINSZ, &size);
        say("tty.foreground %d", tcgetpgrp(tty) == getpgrp());
        say("tty.modes %x %x %x %x", modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag);
        say("tty.size %dx%d", size.ws_col, size.ws_row);
        close(tty);
    }
}

static void files(void) {
    mode_t mask = umask(0);
    umask(mask);
    say("umask %03o", mask);
    char folder[8192];
    /* The system call: the library's own function looks for another answer when this one fails. */
    long length = syscall(SYS_getcwd, folder, sizeof folder);
    if (length < 0)
        say("cwd errno %d", errno);
    else
        say_bytes("cwd", folder, length - 1);
    say_place("cwd.file", ".");
    say_place("root.file", "/");
    say_link("root", "/proc/self/root");
    say_link("exe", "/proc/self/exe");
}

static void scheduling(void) {
    static const char *names[] = {"cpu",    "fsize",   "data",     "stack",      "core",   "rss",
                                  "nproc",  "nofile",  "memlock",  "as",         "locks",  "sigpending",
                                  "msgqueue", "nice",  "rtprio",   "rttime"};
    for (int i = 0; i < 16; i++) {
        struct rlimit64 it = {0};
        prlimit64(0, i, NULL, &it);
        say("limit.%s %llu %llu", names[i], (unsigned long long)it.rlim_cur,
            (unsigned long long)it.rlim_max);
    }
    say("nice %d", getpriority(PRIO_PROCESS, 0));
    struct sched_param param = {0};
    sched_getparam(0, &param);
    say("scheduler %d priority=%d", sched_getscheduler(0), param.sched_priority);
    uint64_t attr[16] = {0};
    syscall(SYS_sched_getattr, 0, attr, sizeof attr, 0);
    for (int i = 0; i < 7; i++) say("scheduler.%d %llx", i, (unsigned long long)attr[i]);
    unsigned char cpus[128] = {0};
    long length = syscall(SYS_sched_getaffinity, 0, sizeof cpus, cpus);
    say_bytes("affinity", (char *)cpus, length < 0 ? 0 : length);
    int mode = -1;
    unsigned long nodes[16] = {0};
    syscall(SYS_get_mempolicy, &mode, nodes, sizeof nodes * 8, NULL, 0);
    say("memory.policy %d %lx", mode, nodes[0]);
    say("ioprio %ld", syscall(SYS_ioprio_get, 1, 0));
    say("timer.slack %d", prctl(PR_GET_TIMERSLACK));
    say_file("oom_score_adj", "/proc/self/oom_score_adj");
    say_file("coredump_filter", "/proc/self/coredump_filter");
    /* Its number is the session's; the niceness is what is passed on. */
    char group[64] = {0};
    int fd = open("/proc/self/autogroup", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, group, sizeof group - 1) > 0 && strchr(group, ' '))
        say_bytes("autogroup", strchr(group, ' '), strcspn(strchr(group, ' '), "\n"));
    if (fd >= 0) close(fd);
}

static void privileges(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    syscall(SYS_capget, &header, data);
    say("capabilities.effective %08x%08x", data[1].effective, data[0].effective);
    say("capabilities.permitted %08x%08x", data[1].permitted, data[0].permitted);
    say("capabilities.inheritable %08x%08x", data[1].inheritable, data[0].inheritable);
    unsigned long long bounding = 0, ambient = 0;
    for (int i = 0; i < 64; i++) {
        if (prctl(PR_CAPBSET_READ, i) == 1) bounding |= 1ull << i;
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, i, 0, 0) == 1) ambient |= 1ull << i;
    }
    say("capabilities.bounding %016llx", bounding);
    say("capabilities.ambient %016llx", ambient);
    say("no_new_privs %d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    say("securebits %x", prctl(PR_GET_SECUREBITS));
    say("keepcaps %d", prctl(PR_GET_KEEPCAPS));
    say("seccomp %d", prctl(PR_GET_SECCOMP));
    say("dumpable %d", prctl(PR_GET_DUMPABLE));
    say("personality %x", personality(0xffffffff));
    int value = -1;
    prctl(PR_GET_PDEATHSIG, &value);
    say("parent.death.signal %d", value);
    prctl(PR_GET_CHILD_SUBREAPER, &value);
    say("subreaper %d", value);
    say("thp.disabled %d", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
    say("memory.failure %d", prctl(PR_MCE_KILL_GET, 0, 0, 0, 0));
    for (int i = 0; i < 3; i++)
        say("speculation.%d %d", i, prctl(PR_GET_SPECULATION_CTRL, i, 0, 0, 0));
    static const unsigned long keys[] = {AT_SECURE, AT_UID, AT_EUID, AT_GID, AT_EGID};
    static const char *names[] = {"secure", "uid", "euid", "gid", "egid"};
    for (int i = 0; i < 5; i++) say("auxiliary.%s %lu", names[i], getauxval(keys[i]));
    say_bytes("auxiliary.execfn", (char *)getauxval(AT_EXECFN), strlen((char *)getauxval(AT_EXECFN)));
}

static void kernel(void) {
    static const char *spaces[] = {"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"};
    for (int i = 0; i < 8; i++) {
        char key[32], path[64];
        snprintf(key, sizeof key, "namespace.%s", spaces[i]);
        snprintf(path, sizeof path, "/proc/self/ns/%s", spaces[i]);
        say_link(key, path);
    }
    say_file("cgroup", "/proc/self/cgroup");
    say_file("comm", "/proc/self/comm");
    say_file("loginuid", "/proc/self/loginuid");
    say_file("label", "/proc/self/attr/current");
}

int main(int argc, char **argv, char **envp) {
    descriptors();
    signals();
    for (int i = 0; i < argc; i++) say_bytes("argv", argv[i], strlen(argv[i]));
    for (char **entry = envp; *entry; entry++) say_bytes("environ", *entry, strlen(*entry));
    identity();
    files();
    scheduling();
    privileges();
    kernel();
    char path[8192];
    snprintf(path, sizeof path, "%s.out", (char *)getauxval(AT_EXECFN));
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return 99;
    for (size_t done = 0; done < used;) {
        ssize_t count = write(fd, text + done, used - done);
        if (count < 0) return 98;
        done += count;
    }
    return 0;
}
