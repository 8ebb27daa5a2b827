#pragma once

// Marks what the shared library shows; everything else is built with hidden visibility.
#define MARU_EXPORT [[gnu::visibility("default")]]
