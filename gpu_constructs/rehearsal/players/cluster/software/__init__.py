"""Software of a stack: releases from files, and what stands in where a chart or a program is not here."""
