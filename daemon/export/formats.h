/* SPDX-License-Identifier: MIT */
/* The functions in the table of formats. Private to this directory. */
#pragma once

#include "export/export.h"

/* Each reads the recording from the descriptor's position and writes its file. Arguments and errors as
 * export__run(). */
int export__speedscope(int recording_fd, const struct export_options *options, FILE *out,
		       struct export_report *ret);
int export__collapsed(int recording_fd, const struct export_options *options, FILE *out,
		      struct export_report *ret);
int export__svg(int recording_fd, const struct export_options *options, FILE *out,
		struct export_report *ret);
/* Defined in a later stage (daemon/html), because the page contains reports, too. */
int export__html(int recording_fd, const struct export_options *options, FILE *out,
		 struct export_report *ret);
int export__pprof(int recording_fd, const struct export_options *options, FILE *out,
		  struct export_report *ret);
int export__firefox(int recording_fd, const struct export_options *options, FILE *out,
		    struct export_report *ret);
int export__perfetto(int recording_fd, const struct export_options *options, FILE *out,
		     struct export_report *ret);
int export__otlp(int recording_fd, const struct export_options *options, FILE *out,
		 struct export_report *ret);
int export__events(int recording_fd, const struct export_options *options, FILE *out,
		   struct export_report *ret);
