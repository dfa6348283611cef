/* The short way of a hook (src/filrouge/daemon/handover.py) in C, to measure what a native client would save.
 *
 * It hands stdin to the daemon's socket, prints the line that comes back and confirms it. Every other way, which the
 * product has in Python, ends here with exit code 3. It is not part of the package (ADR 29).
 *
 *     hook SOCKET VERSION HOST
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_INPUT = 128 * 1024, MAX_ANSWER = 1024 * 1024, MAX_FIELDS = 8192, LONG_WAY = 3 };

static _Noreturn void long_way(void) { exit(LONG_WAY); }

static int connected(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_usec = 600000};
    int connection = socket(AF_UNIX, SOCK_STREAM, 0);
    if (strlen(path) >= sizeof address.sun_path) long_way();
    strcpy(address.sun_path, path);
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(connection, (struct sockaddr *)&address, sizeof address)) long_way();
    return connection;
}

static void put(int descriptor, const char *bytes, size_t length) {
    while (length) {
        ssize_t written = write(descriptor, bytes, length);
        if (written < 0) long_way();
        bytes += written;
        length -= written;
    }
}

static size_t take(int descriptor, char *into, size_t room) {
    size_t length = 0;
    for (;;) {
        ssize_t taken = read(descriptor, into + length, room - length);
        if (taken < 0 || length + taken >= room) long_way();
        if (!taken) return length;
        length += taken;
    }
}

static size_t fields(char *into, const char *version, const char *host) {
    static const char *names[] = {"CLAUDECODE", "CLAUDE_PROJECT_DIR", "CODEX_HOME", "FILROUGE_AUTO_CAPTURE"};
    unsigned char seed[10];
    char hex[21], mounts[64] = "";
    struct timeval now;
    char *end = into;
    gettimeofday(&now, NULL);
    if (getrandom(seed, sizeof seed, 0) != sizeof seed) long_way();
    for (int i = 0; i < 10; i++) sprintf(hex + 2 * i, "%02x", seed[i]);
    if (readlink("/proc/self/ns/mnt", mounts, sizeof mounts - 1) < 0) mounts[0] = 0;
    end += sprintf(end, "version=%s", version) + 1;
    end += sprintf(end, "host=%s", host) + 1;
    end += sprintf(end, "at=%ld.%06ld", (long)now.tv_sec, (long)now.tv_usec) + 1;
    end += sprintf(end, "seed=%s", hex) + 1;
    end += sprintf(end, "files=%s", mounts) + 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && strlen(value) < 1024) end += sprintf(end, "env:%s=%s", names[i], value) + 1;
    }
    *end++ = 0;
    return end - into;
}

int main(int count, char **arguments) {
    static char input[MAX_INPUT + 1], answer[MAX_ANSWER + 1], about[MAX_FIELDS], head[512];
    if (count != 4) long_way();
    size_t given = take(0, input, sizeof input);
    size_t told = fields(about, arguments[2], arguments[3]);
    int connection = connected(arguments[1]);
    int length = sprintf(head,
                         "POST /hooks/input HTTP/1.0\r\nHost: filrouge\r\nContent-Type: application/octet-stream\r\n"
                         "Content-Length: %zu\r\n\r\n",
                         told + given);
    put(connection, head, length);
    put(connection, about, told);
    put(connection, input, given);
    answer[take(connection, answer, sizeof answer)] = 0;
    close(connection);
    char *body = strstr(answer, "\r\n\r\n");
    if (!body || strncmp(answer + 8, " 200", 4)) long_way();
    for (body += 4; *body == ' '; body++) {}
    char *line_end = strchr(body, '\n');
    if (!line_end || *body == '!') long_way();
    char *recall = line_end + 1, *recall_end = strchr(recall, '\n');
    if (!recall_end) long_way();
    if (line_end == body) return 0;
    put(1, body, line_end + 1 - body);
    *recall_end = 0;
    if (*recall) {
        connection = connected(arguments[1]);
        char *text = about;
        int size = sprintf(text, "{\"recall\":\"%.64s\"}", recall);
        length = sprintf(head,
                         "POST /hooks/delivered HTTP/1.1\r\nHost: filrouge\r\nConnection: close\r\n"
                         "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n",
                         size);
        put(connection, head, length);
        put(connection, text, size);
        close(connection);
    }
    return 0;
}
