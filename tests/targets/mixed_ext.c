/* SPDX-License-Identifier: MIT */
/* C code that calls Python code in every way, for tests/live/mixed.py: an extension module of the stable ABI
 * (3.8 and later), named VARIANT, so that one process can load it as several compilers' options made it.
 *
 * Which function calls which is told where the Python code calls them (tests/targets/mixed.py), so
 * each function here has a frame of its own: none is inlined, cloned, or the target of a jump. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03080000
#include <Python.h>

#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#if defined(__clang__)
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noinline, noclone))
#endif
#define GLUE(a, b) a##b
#define INIT(name) GLUE(PyInit_, name)
#define TEXT(a) #a
#define STRING(a) TEXT(a)

/* Read and written after a call, so that the call is not made a jump. */
static volatile unsigned long sink;

APART static void mx_burn(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink += i;
}

APART static void mx_signal_burn(void)
{
	for (unsigned long i = 0; i < 20000; i++)
		sink += i;
}

static inline __attribute__((always_inline)) PyObject *done(PyObject *result)
{
	sink++;
	return result;
}

/* --- calls, each by another function of the interpreter's --- */

APART static PyObject *mx_call_2(PyObject *function)
{
	mx_burn(300);
	return done(PyObject_CallObject(function, NULL));
}

APART static PyObject *mx_call(PyObject *self, PyObject *function)
{
	return done(mx_call_2(function));
}

static PyObject *(*vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);

APART static PyObject *mx_vector(PyObject *self, PyObject *function)
{
	mx_burn(100);
	if (!vectorcall)
		return done(PyObject_CallFunctionObjArgs(function, NULL));
	return done(vectorcall(function, NULL, 0, NULL));
}

APART static PyObject *mx_dict(PyObject *self, PyObject *function)
{
	PyObject *args = PyTuple_New(0), *names = PyDict_New(), *result;

	mx_burn(100);
	result = PyObject_Call(function, args, names);
	Py_DecRef(args);
	Py_DecRef(names);
	return done(result);
}

APART static PyObject *mx_method(PyObject *self, PyObject *object)
{
	mx_burn(100);
	return done(PyObject_CallMethod(object, "method", NULL));
}

APART static PyObject *mx_eval(PyObject *self, PyObject *args)
{
	PyObject *code, *globals;

	if (!PyArg_ParseTuple(args, "OO", &code, &globals))
		return NULL;
	mx_burn(100);
	return done(PyEval_EvalCode(code, globals, globals));
}

APART static PyObject *mx_attribute(PyObject *self, PyObject *object)
{
	mx_burn(100);
	return done(PyObject_GetAttrString(object, "no_such"));
}

APART static PyObject *mx_compare(PyObject *self, PyObject *object)
{
	mx_burn(100);
	return done(PyObject_RichCompare(object, object, Py_LT));
}

/* --- frames of every shape --- */

APART static PyObject *mx_alloca(PyObject *self, PyObject *function)
{
	size_t n = 16 + sink % 3000;
	char *room = alloca(n);
	PyObject *result;

	memset(room, 1, n);
	mx_burn(300);
	result = PyObject_CallObject(function, NULL);
	sink += (unsigned long)room[n / 2];
	return done(result);
}

APART __attribute__((force_align_arg_pointer)) static PyObject *mx_realign(PyObject *self, PyObject *function)
{
	alignas(128) volatile char room[256];
	PyObject *result;

	for (size_t i = 0; i < sizeof(room); i++)
		room[i] = (char)i;
	mx_burn(300);
	result = PyObject_CallObject(function, NULL);
	sink += (unsigned long)room[sink % sizeof(room)];
	return done(result);
}

APART static PyObject *mx_realign_alloca(PyObject *self, PyObject *function)
{
	size_t n = 16 + sink % 3000;
	alignas(64) volatile char room[64];
	char *more = alloca(n);
	PyObject *result;

	memset(more, 1, n);
	for (size_t i = 0; i < sizeof(room); i++)
		room[i] = more[i % n];
	mx_burn(300);
	result = PyObject_CallObject(function, NULL);
	sink += (unsigned long)room[sink % sizeof(room)] + (unsigned long)more[n / 2];
	return done(result);
}

APART static PyObject *mx_big(PyObject *self, PyObject *function)
{
	volatile char room[100000];
	PyObject *result;

	for (size_t i = 0; i < sizeof(room); i += 512)
		room[i] = (char)i;
	mx_burn(300);
	result = PyObject_CallObject(function, NULL);
	sink += (unsigned long)room[sink % sizeof(room) & ~511ul];
	return done(result);
}

/* More values across the call than there are registers. */
APART static PyObject *mx_registers(PyObject *self, PyObject *function)
{
	unsigned long a = sink, b = sink, c = sink, d = sink, e = sink, f = sink, g = sink, h = sink;
	PyObject *result;

	mx_burn(300);
	result = PyObject_CallObject(function, NULL);
	sink = a + b * 3 + c * 5 + d * 7 + e * 11 + f * 13 + g * 17 + h * 19;
	return done(result);
}

APART static PyObject *mx_deep_down(PyObject *function, int depth)
{
	PyObject *result;

	if (depth)
		result = mx_deep_down(function, depth - 1);
	else
		result = PyObject_CallObject(function, NULL);
	return done(result);
}

APART static PyObject *mx_deep(PyObject *self, PyObject *function)
{
	return done(mx_deep_down(function, 20));
}

/* Assembly that describes its frame, and such that does not. */
PyObject *mx_asm_cfi_1(PyObject *(*call)(PyObject *), PyObject *function);
PyObject *mx_asm_bare_1(PyObject *(*call)(PyObject *), PyObject *function);
PyObject *mx_asm_bare_2(PyObject *(*call)(PyObject *), PyObject *function);
__asm__(".text\n"
	".type mx_asm_cfi_1, @function\n"
	"mx_asm_cfi_1:\n"
	".cfi_startproc\n"
	"	push %r12\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %r12, 0\n"
	"	mov %rsp, %r12\n"
	"	.cfi_def_cfa_register %r12\n"
	"	sub $72, %rsp\n"
	"	and $-32, %rsp\n"
	"	mov $400, %eax\n"
	"1:	dec %eax\n"
	"	jnz 1b\n"
	"	mov %rbp, 8(%rsp)\n"
	"	mov %rsp, %rbp\n"
	"	.cfi_escape 0x10, 6, 2, 0x76, 8\n" /* rbp is at rbp + 8 */
	"	.cfi_escape 0x0f, 5, 0x76, 16, 0x06, 0x23, 16\n" /* the CFA is *(rbp + 16) + 16 */
	"	mov %r12, 16(%rsp)\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	call *%rax\n"
	"	mov 8(%rsp), %rbp\n"
	"	.cfi_same_value %rbp\n"
	"	.cfi_def_cfa %r12, 16\n"
	"	mov %r12, %rsp\n"
	"	.cfi_def_cfa_register %rsp\n"
	"	pop %r12\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_same_value %r12\n"
	"	ret\n"
	".cfi_endproc\n"
	".size mx_asm_cfi_1, . - mx_asm_cfi_1\n"
	".type mx_asm_bare_1, @function\n"
	"mx_asm_bare_1:\n"
	"	push %rbx\n"
	"	sub $48, %rsp\n"
	"	mov $400, %eax\n"
	"1:	dec %eax\n"
	"	jnz 1b\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	call *%rax\n"
	"	add $48, %rsp\n"
	"	pop %rbx\n"
	"	ret\n"
	".size mx_asm_bare_1, . - mx_asm_bare_1\n"
	".type mx_asm_bare_2, @function\n"
	"mx_asm_bare_2:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	sub $64, %rsp\n"
	"	mov $400, %eax\n"
	"1:	dec %eax\n"
	"	jnz 1b\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	call *%rax\n"
	"	leave\n"
	"	ret\n"
	".size mx_asm_bare_2, . - mx_asm_bare_2\n");

APART static PyObject *mx_asm_cfi(PyObject *self, PyObject *function)
{
	return done(mx_asm_cfi_1(mx_call_2, function));
}

APART static PyObject *mx_asm_bare(PyObject *self, PyObject *function)
{
	return done(mx_asm_bare_1(mx_call_2, function));
}

APART static PyObject *mx_asm_bare_fp(PyObject *self, PyObject *function)
{
	return done(mx_asm_bare_2(mx_call_2, function));
}

/* --- generators, coroutines --- */

APART static PyObject *mx_iterate(PyObject *self, PyObject *generator)
{
	PyObject *item;

	while ((item = PyIter_Next(generator))) {
		Py_DecRef(item);
		mx_burn(100);
	}
	if (PyErr_Occurred())
		return NULL;
	Py_IncRef(Py_None);
	return Py_None;
}

APART static PyObject *mx_send(PyObject *self, PyObject *generator)
{
	PyObject *item;

	while ((item = PyObject_CallMethod(generator, "send", "O", Py_None))) {
		Py_DecRef(item);
		mx_burn(100);
	}
	if (!PyErr_ExceptionMatches(PyExc_StopIteration))
		return NULL;
	PyErr_Clear();
	Py_IncRef(Py_None);
	return Py_None;
}

/* Into a generator that waits at a yield inside of `try`, and goes on to its end. */
APART static PyObject *mx_throw(PyObject *self, PyObject *generator)
{
	PyObject *item = PyObject_CallMethod(generator, "throw", "O", PyExc_KeyError);

	mx_burn(100);
	if (!item && !PyErr_ExceptionMatches(PyExc_StopIteration))
		return NULL;
	PyErr_Clear();
	Py_DecRef(item);
	Py_IncRef(Py_None);
	return Py_None;
}

/* --- destroying --- */

APART static void mx_drop_2(PyObject *object)
{
	mx_burn(100);
	Py_DecRef(object);
	sink++;
}

/* Makes an object and drops it: its __del__, its weak references' callbacks. */
APART static PyObject *mx_drop(PyObject *self, PyObject *maker)
{
	PyObject *object = PyObject_CallObject(maker, NULL);

	if (!object)
		return NULL;
	mx_drop_2(object);
	Py_IncRef(Py_None);
	return Py_None;
}

/* --- signals --- */

static void mx_handler(int number)
{
	mx_signal_burn();
	sink++;
}

/* A signal each `usecs` of the thread's CPU time, handled in C. */
static PyObject *timer(PyObject *self, PyObject *usecs)
{
	struct sigaction action = {.sa_handler = mx_handler, .sa_flags = SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3};
	struct itimerspec spec = {};
	timer_t id;

	spec.it_interval.tv_nsec = spec.it_value.tv_nsec = PyLong_AsLong(usecs) * 1000;
	if (sigaction(SIGRTMIN + 3, &action, NULL) || timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &id) ||
	    timer_settime(id, 0, &spec, NULL))
		return PyErr_SetFromErrno(PyExc_OSError);
	Py_IncRef(Py_None);
	return Py_None;
}

/* A signal handler of Python's, run by C code that asks for it. */
APART static PyObject *mx_check(PyObject *self, PyObject *number)
{
	raise((int)PyLong_AsLong(number));
	mx_burn(300);
	if (PyErr_CheckSignals())
		return NULL;
	Py_IncRef(Py_None);
	return Py_None;
}

APART static PyObject *mx_raise(PyObject *self, PyObject *number)
{
	mx_burn(300);
	raise((int)PyLong_AsLong(number));
	Py_IncRef(Py_None);
	return Py_None;
}

/* --- threads --- */

APART static PyObject *mx_release(PyObject *self, PyObject *function)
{
	PyThreadState *state = PyEval_SaveThread();

	mx_burn(2000);
	PyEval_RestoreThread(state);
	return done(PyObject_CallObject(function, NULL));
}

APART static void mx_thread_call(PyObject *function)
{
	PyGILState_STATE state = PyGILState_Ensure();
	PyObject *result = PyObject_CallObject(function, NULL);

	if (!result)
		PyErr_Print();
	Py_DecRef(result);
	PyGILState_Release(state);
	sink++;
}

APART static void *mx_thread_main(void *function)
{
	for (int i = 0; i < 200; i++) {
		mx_burn(2000);
		mx_thread_call(function);
	}
	sink++;
	return NULL;
}

/* A thread that Python did not begin. */
APART static PyObject *mx_thread(PyObject *self, PyObject *function)
{
	PyThreadState *state = PyEval_SaveThread();
	pthread_t thread;
	int err = pthread_create(&thread, NULL, mx_thread_main, function);

	if (!err)
		pthread_join(thread, NULL);
	PyEval_RestoreThread(state);
	Py_IncRef(Py_None);
	return Py_None;
}

/* --- called by ctypes --- */

int mx_apply(int (*callback)(int), int n);
APART int mx_apply(int (*callback)(int), int n)
{
	int got = 0;

	for (int i = 0; i < n; i++) {
		mx_burn(300);
		got += callback(i);
	}
	sink++;
	return got;
}

static PyMethodDef methods[] = {
	{"call", mx_call, METH_O, NULL},
	{"vector", mx_vector, METH_O, NULL},
	{"dict", mx_dict, METH_O, NULL},
	{"method", mx_method, METH_O, NULL},
	{"eval", mx_eval, METH_VARARGS, NULL},
	{"attribute", mx_attribute, METH_O, NULL},
	{"compare", mx_compare, METH_O, NULL},
	{"alloca", mx_alloca, METH_O, NULL},
	{"realign", mx_realign, METH_O, NULL},
	{"realign_alloca", mx_realign_alloca, METH_O, NULL},
	{"big", mx_big, METH_O, NULL},
	{"registers", mx_registers, METH_O, NULL},
	{"deep", mx_deep, METH_O, NULL},
	{"asm_cfi", mx_asm_cfi, METH_O, NULL},
	{"asm_bare", mx_asm_bare, METH_O, NULL},
	{"asm_bare_fp", mx_asm_bare_fp, METH_O, NULL},
	{"iterate", mx_iterate, METH_O, NULL},
	{"send", mx_send, METH_O, NULL},
	{"throw", mx_throw, METH_O, NULL},
	{"drop", mx_drop, METH_O, NULL},
	{"timer", timer, METH_O, NULL},
	{"check", mx_check, METH_O, NULL},
	{"raises", mx_raise, METH_O, NULL},
	{"release", mx_release, METH_O, NULL},
	{"thread", mx_thread, METH_O, NULL},
	{},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, STRING(VARIANT), NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC INIT(VARIANT)(void)
{
	vectorcall = dlsym(RTLD_DEFAULT, "PyObject_Vectorcall");
	if (!vectorcall)
		vectorcall = dlsym(RTLD_DEFAULT, "_PyObject_Vectorcall");
	return PyModule_Create(&module);
}
